package resp

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Endpoint is the content of a URL: a server, and the options of its client.
type Endpoint struct {
	// TLS is set for the scheme rediss. Path is the path of a unix socket; if
	// it is set, Host and Port are empty, otherwise they are not.
	TLS        bool
	Host, Port string
	// Others are further servers of the same cluster, as host:port.
	Others []string
	Path   string
	// Username is never set without Password.
	Username, Password string
	DB                 int
	// Cluster is set if the servers are nodes of a cluster.
	Cluster bool
	// Protocol is 2 or 3, or zero if the URL has none.
	Protocol int
	// Name is the name of the connections.
	Name string
	Pool
}

// Pool is the options of a pool of connections. Fields that the URL does not
// have are zero.
type Pool struct {
	Timeout, DialTimeout  time.Duration
	IdleTimeout, Lifetime time.Duration
	MaxConns, MaxIdle     int
}

// ParseURL parses a URL of scheme redis, rediss or unix. Errors contain no part
// of the URL except known names of parameters.
func ParseURL(s string) (Endpoint, error) {
	s, others := cutHosts(s)
	u, err := url.Parse(s)
	if err != nil || strings.HasPrefix(u.Scheme, "redis") && u.Opaque != "" { // no slashes, no host
		// The parser's own error contains the URL, and with it the password.
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

// cutHosts removes all hosts but the first from a URL and returns them. They
// are separated by commas; package url supports only one.
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

// hostPort returns the host and the port of a server, with defaults.
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
	for name, values := range query {
		known, ok := e.parameter(name, values[0])
		switch {
		case !known && plain(name):
			return errors.New("unknown parameter " + name)
		case !known:
			return errors.New("unknown parameter")
		case len(values) > 1:
			return errors.New(name + " given twice")
		case !ok:
			return errors.New("bad value of " + name)
		}
	}
	return nil
}

// parameter parses one parameter. It reports whether the name is known, and
// whether the value is valid.
func (e *Endpoint) parameter(name, value string) (known, ok bool) {
	switch name {
	case "db":
		ok = number(&e.DB, value, 0)
	case "cluster":
		e.Cluster, ok = value == "true", value == "true" || value == "false"
	case "protocol":
		ok = number(&e.Protocol, value, 2) && e.Protocol <= 3
	case "client_name":
		e.Name, ok = value, value != ""
	case "timeout":
		ok = duration(&e.Timeout, value)
	case "dial_timeout":
		ok = duration(&e.DialTimeout, value)
	case "conn_max_idle_time":
		ok = duration(&e.IdleTimeout, value)
	case "conn_max_lifetime":
		ok = duration(&e.Lifetime, value)
	case "pool_size":
		ok = number(&e.MaxConns, value, 1)
	case "max_idle_conns":
		ok = number(&e.MaxIdle, value, 1)
	default:
		return false, false
	}
	return true, ok
}

// plain reports whether a name may appear in an error. Such a name cannot forge
// a log line, and is unlikely to be part of a password.
func plain(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 30
}

func number(to *int, s string, least int) bool {
	n, err := strconv.ParseUint(s, 10, 31)
	*to = int(n)
	return err == nil && *to >= least
}

// duration parses a duration such as 1500ms, or a number of seconds.
func duration(to *time.Duration, s string) bool {
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	*to = d
	return err == nil && d > 0
}
