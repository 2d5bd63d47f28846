package resp

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Endpoint is what a URL says about a server.
type Endpoint struct {
	// TLS is set for rediss. Path is that of a unix socket, and then Host and
	// Port are empty; else they are not.
	TLS        bool
	Host, Port string
	// Others are further servers of the same cluster, as host:port.
	Others []string
	Path   string
	// Username is never set without Password.
	Username, Password string
	DB                 int
	// Cluster says that the servers are nodes of a cluster.
	Cluster bool
}

// ParseURL takes a URL of scheme redis, rediss or unix apart. Errors never
// repeat any of it.
func ParseURL(s string) (Endpoint, error) {
	s, others := cutHosts(s)
	u, err := url.Parse(s)
	if err != nil {
		// The parser's own error holds the URL, and with it the password.
		return Endpoint{}, errors.New("cannot be parsed (special characters in user and password are written as %XX)")
	}
	var e Endpoint
	if u.User != nil {
		e.Username = u.User.Username()
		e.Password, _ = u.User.Password()
		if e.Username != "" && e.Password == "" {
			return Endpoint{}, errors.New("user without password")
		}
	}
	db := ""
	switch u.Scheme {
	case "redis", "rediss":
		e.TLS = u.Scheme == "rediss"
		if e.Host, e.Port, err = hostPort(u); err != nil {
			return Endpoint{}, err
		}
		for _, host := range others {
			o, err := url.Parse("redis://" + host)
			if err != nil || o.Host != host || host == "" {
				return Endpoint{}, errors.New("list of hosts cannot be parsed")
			}
			name, port, err := hostPort(o)
			if err != nil {
				return Endpoint{}, err
			}
			e.Others = append(e.Others, net.JoinHostPort(name, port))
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
	if len(e.Others) > 0 && !e.Cluster {
		return Endpoint{}, errors.New("several hosts without cluster=true")
	}
	return e, nil
}

// cutHosts takes all hosts but the first out of a URL: they are separated by
// commas, and package url knows one.
func cutHosts(s string) (one string, others []string) {
	begin := strings.Index(s, "://") + len("://")
	if begin < len("://") {
		return s, nil
	}
	end := len(s)
	if i := strings.IndexAny(s[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	begin += strings.LastIndexByte(s[begin:end], '@') + 1
	hosts := strings.Split(s[begin:end], ",")
	return s[:begin] + hosts[0] + s[end:], hosts[1:]
}

// hostPort returns where a server is, with defaults.
func hostPort(u *url.URL) (host, port string, err error) {
	host, port = u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", errors.New("port is not a number from 1 to 65535")
	}
	return host, port, nil
}

// query takes in the number of the database, given by the path or by ?db=, and
// the other parameters.
func (e *Endpoint) query(db string, u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return errors.New("bad query")
	}
	given := db != ""
	for name, values := range query {
		switch {
		case name == "cluster" && len(values) == 1 && (values[0] == "true" || values[0] == "false"):
			e.Cluster = values[0] == "true"
		case name == "cluster":
			return errors.New("cluster is not true or false")
		case name != "db":
			return errors.New("the only parameters are db and cluster")
		case len(values) > 1 || given:
			return errors.New("database given twice")
		default:
			db, given = values[0], true
		}
	}
	if !given {
		return nil
	}
	n, err := strconv.ParseUint(db, 10, 31)
	if err != nil {
		return errors.New("database is not a number")
	}
	e.DB = int(n)
	return nil
}
