package curl

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Request is the request that a command line describes.
type Request struct {
	// Method is empty for a GET, or a POST with a body.
	Method string
	// URL is as written: without a scheme it is one of HTTP.
	URL string
	// Header has the fields named by the command line. A field without values
	// suppresses a default field of that name.
	Header http.Header
	Body   string
	// Insecure says that certificates of servers are not checked, Follow that redirects are
	// followed.
	Insecure, Follow bool
	// Timeout is the longest time of a request. 0 means that none is named.
	Timeout time.Duration
}

// Parse returns the request of a command line of curl. words are the words behind the name curl,
// and read reads the files of bodies. An unknown option, or more than one URL, is an error. No
// error holds the value of an option or a part of a URL.
func Parse(words []string, read func(file string) (string, error)) (*Request, error) {
	c := command{read: read, given: http.Header{}, implied: http.Header{}}
	if err := c.parse(words); err != nil {
		return nil, err
	}
	switch {
	case len(c.urls) == 0:
		return nil, errors.New("curl: the command has no URL")
	case len(c.urls) > 1:
		return nil, errors.New("curl: the command has more than one URL, or a value without its option")
	case c.head && (c.get || c.hasData && c.request == ""):
		return nil, errors.New("curl: --head has neither --get nor a body")
	case !c.globOff && globs.MatchString(c.urls[0]):
		return nil, errors.New("curl: the URL has {,} or [-], of which curl makes several URLs: write --globoff if they stand for themselves")
	}
	r := &Request{Method: c.request, URL: c.urls[0], Body: strings.Join(c.data, "&"), Insecure: c.insecure, Follow: c.follow, Timeout: c.timeout}
	// Pieces of --data are joined as fields of a form, pieces of --json are one document.
	if c.json {
		r.Body = strings.Join(c.data, "")
	}
	if c.get {
		r.URL, r.Body = withQuery(r.URL, r.Body), ""
	}
	if r.Method == "" {
		switch {
		case c.head:
			r.Method = http.MethodHead
		case c.hasData && !c.get:
			r.Method = http.MethodPost // with an empty body, too
		}
	}
	r.Header = c.header()
	return r, nil
}

// globs finds parts of a URL of which curl makes several.
var globs = regexp.MustCompile(`\{[^{}]*,[^{}]*\}|\[\w+-\w+(:\d+)?\]`) // read-only

// withQuery appends the data of --get to the query of a URL.
func withQuery(u, data string) string {
	u, fragment, hasFragment := strings.Cut(u, "#")
	switch {
	case data == "":
	case strings.HasSuffix(u, "?") || strings.HasSuffix(u, "&"):
		u += data
	case strings.Contains(u, "?"):
		u += "&" + data
	default:
		u += "?" + data
	}
	if hasFragment {
		u += "#" + fragment
	}
	return u
}

// header returns all fields. A field of --header replaces the same field of other options.
func (c *command) header() http.Header {
	// curl sends this field unless another one replaces it, and some targets choose their answer by
	// it.
	all := http.Header{"Accept": {"*/*"}}
	if len(c.cookies) > 0 {
		all["Cookie"] = []string{strings.Join(c.cookies, "; ")}
	}
	maps.Copy(all, c.implied)
	maps.Copy(all, c.given)
	return all
}

// addHeader adds a line of --header.
func (c *command) addHeader(line string) error {
	if strings.HasPrefix(line, "@") {
		return errors.New("a file of headers is not read")
	}
	name, value, ok := strings.Cut(line, ":")
	empty := false
	if !ok {
		name, empty = strings.CutSuffix(strings.TrimRight(line, " \t"), ";")
	}
	value = strings.Trim(value, " \t")
	switch {
	case !httpguts.ValidHeaderFieldName(name) || !ok && !empty || !httpguts.ValidHeaderFieldValue(value):
		return errors.New(`want "Name: value"`)
	// In curl, "Name:" removes a field, and "Name;" sends it without a value.
	case value != "" || empty:
		c.given.Add(name, value)
	case len(c.given.Values(name)) == 0:
		c.given[http.CanonicalHeaderKey(name)] = nil // suppresses a default field
	}
	return nil
}

// setUser sets the user and the password of --user.
func (c *command) setUser(both string) error {
	if !strings.Contains(both, ":") {
		return errors.New("want USER:PASSWORD, since strata load asks for no password")
	}
	c.implied.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(both)))
	return nil
}

// addCookie adds the cookies of --cookie.
func (c *command) addCookie(cookies string) error {
	if !strings.Contains(cookies, "=") {
		return errors.New("want NAME=VALUE, since a file of cookies is not read")
	}
	if !httpguts.ValidHeaderFieldValue(cookies) {
		return errControl
	}
	c.cookies = append(c.cookies, cookies)
	return nil
}

var errControl = errors.New("the value has a control character")

// implies returns the function of an option that sets a field of the header. An empty value means that it
// is not sent.
func (c *command) implies(name string, prefix string) func(string) error {
	return func(value string) error {
		if !httpguts.ValidHeaderFieldValue(value) {
			return errControl
		}
		if c.implied[name] = nil; value != "" {
			c.implied.Set(name, prefix+value)
		}
		return nil
	}
}

// setTimeout sets the seconds of --max-time.
func (c *command) setTimeout(s string) error {
	d, err := time.ParseDuration(s + "s")
	if err != nil || d <= 0 || d > 24*time.Hour {
		return fmt.Errorf("want a number of seconds, at most those of a day")
	}
	c.timeout = d
	return nil
}
