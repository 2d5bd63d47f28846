package endpoint

import (
	"errors"
	"net/textproto"
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

// Clean returns a URL in the form that may be shown: without user, password, query and fragment.
// The URL need not be parsable. It is the only way in which a URL gets into an error, a log or a
// report.
func Clean(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz+") != "" {
		return "***"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if strings.ContainsAny(rest[:at], "?#") {
			// A query with an @, or a password with a question mark.
			return scheme + "://***"
		}
		rest = "***" + rest[at:] // a password may have a slash
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i] + "?***"
	}
	return scheme + "://" + rest
}

// Reason returns the error of an HTTP request without texts from outside: without the address,
// which package net/http names with the query, and without parts of the answer, which may repeat
// the request with its headers. The error still wraps the cause.
func Reason(err error) error {
	for e, ok := errors.AsType[*url.Error](err); ok; e, ok = errors.AsType[*url.Error](err) {
		err = e.Err
	}
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return errors.New("the header of the answer is malformed")
	}
	if err == nil {
		return nil
	}
	if before, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return &reason{strings.TrimRight(before, ` :=,;`), err}
	}
	return err
}

// reason is an error with a text of its own.
type reason struct {
	text string
	err  error
}

// Error is the text.
func (r *reason) Error() string { return r.text }

// Unwrap is the cause.
func (r *reason) Unwrap() error { return r.err }
