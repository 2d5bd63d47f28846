package resp

import (
	"errors"
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
	Path       string
	// Username is never set without Password.
	Username, Password string
	DB                 int
}

// ParseURL takes a URL of scheme redis, rediss or unix apart. Errors never
// repeat any of it.
func ParseURL(s string) (Endpoint, error) {
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
		e.Host, e.Port = u.Hostname(), u.Port()
		if e.Host == "" {
			e.Host = "localhost"
		}
		if e.Port == "" {
			e.Port = "6379"
		}
		if n, err := strconv.ParseUint(e.Port, 10, 16); err != nil || n == 0 {
			return Endpoint{}, errors.New("port is not a number from 1 to 65535")
		}
		db = strings.TrimPrefix(u.Path, "/")
	case "unix":
		if u.Host != "" || u.Path == "" {
			return Endpoint{}, errors.New("unix needs an absolute path, as in unix:///run/redis.sock")
		}
		e.Path = u.Path
	default:
		return Endpoint{}, errors.New("scheme is not redis, rediss or unix")
	}
	if e.DB, err = database(db, u); err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

// database returns the number of the database, given by the path or by ?db=.
func database(db string, u *url.URL) (int, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return 0, errors.New("bad query")
	}
	given := db != ""
	for name, values := range query {
		if name != "db" {
			return 0, errors.New("the only parameter is db")
		}
		if len(values) > 1 || given {
			return 0, errors.New("database given twice")
		}
		db, given = values[0], true
	}
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseUint(db, 10, 31)
	if err != nil {
		return 0, errors.New("database is not a number")
	}
	return int(n), nil
}
