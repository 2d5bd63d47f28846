package resp

import (
	"errors"
	"net/url"
	"strings"

	"github.com/strata-cache/strata/internal/wire"
)

// Endpoint is the content of a URL: a server, and the options of its client.
type Endpoint struct {
	// TLS is set for the scheme rediss. Path is the path of a unix socket; if
	// it is set, Host and Port are empty, otherwise they are not.
	TLS        bool
	Host, Port string
	// Others are further servers of the same cluster, or further sentinels, as
	// host:port.
	Others []string
	Path   string
	// Username may be set without Password.
	Username, Password string
	DB                 int
	// Cluster is set if the servers are nodes of a cluster.
	Cluster bool
	// Sentinel is the name of a primary if the servers are sentinels, with
	// their own credentials.
	Sentinel, SentinelUsername, SentinelPassword string
	// Protocol is 2 or 3, or zero if the URL has none.
	Protocol int
	// Name is the name of the connections.
	Name string
	// Limits are zero where the URL has none.
	Limits wire.Limits
}

// ParseURL parses a URL of scheme redis, rediss or unix. Errors contain no part
// of the URL except known names of parameters.
func ParseURL(s string) (Endpoint, error) {
	s, others := wire.CutHosts(s)
	u, err := url.Parse(s)
	if err != nil || strings.HasPrefix(u.Scheme, "redis") && u.Opaque != "" { // no slashes, no host
		// The parser's own error contains the URL, and with it the password.
		return Endpoint{}, errors.New("cannot be parsed (special characters in user and password are written as %XX)")
	}
	var e Endpoint
	if e.Username, e.Password, err = wire.Credentials(u); err != nil {
		return Endpoint{}, err
	}
	db := ""
	switch u.Scheme {
	case "redis", "rediss":
		e.TLS = u.Scheme == "rediss"
		if err := e.hosts(u, others); err != nil {
			return Endpoint{}, err
		}
		db = strings.TrimPrefix(u.Path, "/")
	case "unix":
		if u.Host != "" || u.Path == "" || len(others) > 0 {
			return Endpoint{}, errors.New("unix needs an absolute path, as in unix:///run/redis.sock")
		}
		e.Path = u.Path
	default:
		return Endpoint{}, errors.New("scheme is not redis, rediss or unix")
	}
	if err := e.query(db, u); err != nil {
		return Endpoint{}, err
	}
	if len(e.Others) > 0 && !e.Cluster && e.Sentinel == "" {
		return Endpoint{}, errors.New("several hosts without cluster=true or sentinel=name")
	}
	return e, nil
}

// hosts parses the host of a URL, and the other hosts cut from the URL before.
func (e *Endpoint) hosts(u *url.URL, others []string) (err error) {
	port := "6379"
	if u.Query().Has("sentinel") {
		port = "26379"
	}
	if e.Host, e.Port, err = wire.HostPort(u, port); err != nil {
		return err
	}
	e.Others, err = wire.ParseServers(others, port)
	return err
}

// query parses the parameters, and the number of the database, which is given
// by the path or by ?db=.
func (e *Endpoint) query(db string, u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return errors.New("bad query")
	}
	if db != "" {
		query["db"] = append(query["db"], db)
	}
	return wire.CheckQuery(query, e.parameter)
}

// parameter parses one parameter. It reports whether the name is known, and
// whether the value is valid.
func (e *Endpoint) parameter(name, value string) (known, ok bool) {
	switch name {
	case "db":
		ok = wire.ParseNumber(&e.DB, value, 0)
	case "cluster":
		e.Cluster, ok = value == "true", value == "true" || value == "false"
	case "sentinel":
		e.Sentinel, ok = value, value != ""
	case "sentinel_username":
		e.SentinelUsername, ok = value, value != ""
	case "sentinel_password":
		e.SentinelPassword, ok = value, value != ""
	case "protocol":
		ok = wire.ParseNumber(&e.Protocol, value, 2) && e.Protocol <= 3
	case "client_name":
		e.Name, ok = value, value != ""
	default:
		return wire.SetLimit(&e.Limits, name, value)
	}
	return true, ok
}
