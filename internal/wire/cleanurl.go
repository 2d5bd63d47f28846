package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// ParseHTTP returns a URL of http or https that names a host. No error holds a part of it: a password
// with a slash makes the parser take a piece of it for a port, and name that in its error.
//
// An @ behind the host is refused, also in a query. It may be the end of a password, and then the host is a piece of that:
// errors of the network would name it.
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
	case strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@"):
		return nil, errors.New("the URL has an @ behind the host (special characters in user and password are written as %XX, and an @ elsewhere as %40)")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
		return nil, errors.New("the port of the URL is not a number from 1 to 65535")
	}
	return u, nil
}

// Query returns the parameters of a URL. The method of url.URL leaves out those that it cannot read, without a word: the
// request would be another one. No error quotes the query.
func Query(u *url.URL) (url.Values, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the query of the URL cannot be read (a ; is written as %3B, and a % as %25)")
	}
	return q, nil
}

// CleanURL returns a URL in the form that may be shown: without user, password, query and fragment.
// The URL need not be parsable. It is the only way in which a URL gets into an error, a log or a
// report.
func CleanURL(text string) string {
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

// CleanAddr returns the address of a server in the form that may be shown. With an @ behind its beginning it is a URL, or a part
// of one, that was given for an address, with its password.
func CleanAddr(addr string) string {
	if strings.HasPrefix(addr, "/") || strings.LastIndexByte(addr, '@') <= 0 {
		return addr
	}
	return CleanURL(addr)
}

// CleanError returns the error of an HTTP request without texts from outside: without the address,
// which package net/http names with the query, and without parts of the answer, which may repeat
// the request with its headers. The error still wraps the cause.
func CleanError(err error) error {
	sent := false
	for e, ok := errors.AsType[*url.Error](err); ok; e, ok = errors.AsType[*url.Error](err) {
		err, sent = e.Err, true
	}
	// The refusal of a proxy is an error with the words of the proxy, and of no type.
	if sent && reflect.TypeOf(err) == wordsType && !slices.Contains(known, err) {
		return &reason{"the request failed, or a proxy has refused it", err}
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

var (
	wordsType = reflect.TypeOf(errors.New("")) // read-only
	// known are errors of this type that say nothing from outside. read-only
	known = []error{io.EOF, io.ErrUnexpectedEOF, http.ErrSchemeMismatch, http.ErrUseLastResponse, context.Canceled}
)

// reason is an error with a text of its own.
type reason struct {
	text string
	err  error
}

// Error is the text.
func (r *reason) Error() string { return r.text }

// Unwrap is the cause.
func (r *reason) Unwrap() error { return r.err }
