package endpoint

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// ParseHTTP returns a URL of http or https that names a host. No error holds a part of it: a password
// with a slash makes the parser take a piece of it for a port, and name that in its error.
func ParseHTTP(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed (special characters in user and password are written as %XX, and a port is a number)")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL begins with neither http:// nor https://")
	case u.Hostname() == "":
		return nil, errors.New("the URL names no host")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
		return nil, errors.New("the port of the URL is not a number from 1 to 65535")
	}
	return u, nil
}

// Clean is a URL as it may be shown, also one that cannot be parsed: without user, password, query and
// fragment. It is the only way in which a URL gets into an error, a log or a report.
func Clean(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz+") != "" {
		return "***"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		before := rest[:at]
		switch {
		case strings.ContainsAny(before, "?#"):
			// A query with an @, or a password with a question mark.
			return scheme + "://***"
		case strings.ContainsRune(before, ':') || !strings.ContainsRune(before, '/'):
			rest = "***@" + rest[at+1:]
		}
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i] + "?***"
	}
	return scheme + "://" + rest
}

// Reason is the error of an HTTP request without its address, which package net/http names with the
// query.
func Reason(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
