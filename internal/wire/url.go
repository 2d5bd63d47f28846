// The parts that URLs of all servers have in common: hosts, credentials, and the options of a
// pool of connections. No error holds a part of a URL but known names of parameters.

package wire

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// SetLimit parses one parameter of the connections. It reports whether the name is
// known, and whether the value is valid.
func SetLimit(p *Limits, name, value string) (known, ok bool) {
	switch name {
	case "timeout":
		ok = duration(&p.Timeout, value)
	case "dial_timeout":
		ok = duration(&p.DialTimeout, value)
	case "conn_max_idle_time":
		ok = duration(&p.IdleTimeout, value)
	case "conn_max_lifetime":
		ok = duration(&p.MaxLifetime, value)
	case "pool_size":
		ok = ParseNumber(&p.MaxConns, value, 1)
	case "max_idle_conns":
		ok = ParseNumber(&p.MaxIdle, value, 1)
	default:
		return false, false
	}
	return true, ok
}

// CheckQuery hands each parameter of a query to set, which reports whether the name is
// known, and whether the value is valid.
func CheckQuery(query url.Values, set func(name, value string) (known, ok bool)) error {
	// A misspelled parameter would silently have no effect.
	for name, values := range query {
		known, ok := set(name, values[0])
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

// Credentials returns the user and the password of a URL. A user without a password has a
// colon behind it: else it may be a password.
func Credentials(u *url.URL) (username, password string, err error) {
	if u.User == nil {
		return "", "", nil
	}
	username = u.User.Username()
	password, given := u.User.Password()
	if username != "" && !given {
		return "", "", errors.New("user without password, and without a colon behind it")
	}
	return username, password, nil
}

// CutHosts removes all hosts but the first from a URL and returns them. They
// are separated by commas; package url supports only one.
func CutHosts(s string) (one string, others []string) {
	begin := strings.Index(s, "://") + len("://")
	if begin < len("://") {
		return s, nil
	}
	end := len(s)
	if i := strings.IndexAny(s[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	// A password may have an @ of its own, and commas.
	begin += strings.LastIndexByte(s[begin:end], '@') + 1
	hosts := strings.Split(s[begin:end], ",")
	return s[:begin] + hosts[0] + s[end:], hosts[1:]
}

// ParseServers returns hosts that CutHosts has removed, each as host:port.
func ParseServers(hosts []string, defaultPort string) (all []string, err error) {
	for _, host := range hosts {
		u, err := url.Parse("tcp://" + host)
		if err != nil || u.Host != host || host == "" {
			return nil, errors.New("list of hosts cannot be parsed")
		}
		name, port, err := HostPort(u, defaultPort)
		if err != nil {
			return nil, err
		}
		all = append(all, net.JoinHostPort(name, port))
	}
	return all, nil
}

// HostPort returns the host and the port of a server, with defaults.
func HostPort(u *url.URL, defaultPort string) (host, port string, err error) {
	host, port = u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", errors.New("port is not a number from 1 to 65535")
	}
	return host, port, nil
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

// ParseNumber parses a number of at least least.
func ParseNumber(to *int, s string, least int) bool {
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
