package load

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// placeholder is the text that the key replaces.
const placeholder = "{i}"

// template builds the requests of a run.
type template struct {
	method string
	url    *url.URL
	header http.Header
	host   string
	body   string

	keyed []string // names of headers with a placeholder in a value
}

// newTemplate returns the template of a run. The error is caused by o.
func newTemplate(o Options) (*template, error) {
	u, err := ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	t := &template{method: o.Method, url: u, header: o.Header.Clone(), body: o.Body}
	if t.header == nil {
		t.header = http.Header{}
	}
	// The HTTP client ignores Host in a header and takes it from the request.
	t.host = t.header.Get("Host")
	t.header.Del("Host")
	if host := strings.ReplaceAll(t.host, placeholder, "0"); host != "" && !sendable(host) {
		return nil, errors.New("load: header: Host is no host that can be sent")
	}
	// A body has this type in the requests of curl. A name without values is a field that the user
	// has removed.
	kinds, named := t.header["Content-Type"]
	if removed := named && len(kinds) == 0; t.body != "" && t.header.Get("Content-Type") == "" && !removed {
		t.header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	t.setCredentials()
	for name, values := range t.header {
		if strings.Contains(strings.Join(values, ""), placeholder) {
			t.keyed = append(t.keyed, name)
		}
	}
	if o.Cardinality > 1 && !t.hasPlaceholder() {
		u.RawQuery = withPlaceholder(u.RawQuery)
	}
	// A request that cannot be built is an error of this call, before the load begins, and not of
	// each request.
	if _, err := t.request(context.Background(), 0); err != nil {
		return nil, err
	}
	return t, nil
}

// setCredentials moves the user of the URL into the header, like other clients.
func (t *template) setCredentials() {
	if t.url.User == nil {
		return
	}
	if t.header.Get("Authorization") == "" {
		password, _ := t.url.User.Password()
		r := http.Request{Header: t.header}
		r.SetBasicAuth(t.url.User.Username(), password)
	}
	t.url.User = nil
}

func (t *template) hasPlaceholder() bool {
	return len(t.keyed) > 0 || strings.Contains(t.host+t.url.Path+t.url.RawQuery+t.body, placeholder)
}

// sendable reports whether the HTTP client sends a host. In place of any other one it sends an empty
// Host, without an error.
func sendable(host string) bool {
	ascii, err := httpguts.PunycodeHostPort(host)
	return err == nil && httpguts.ValidHostHeader(ascii)
}

// withPlaceholder appends the placeholder to the first parameter name of a
// query, or a parameter i if there is no name.
func withPlaceholder(query string) string {
	params := strings.Split(query, "&")
	for i, p := range params {
		if strings.HasPrefix(p, "name=") {
			params[i] += placeholder
			return strings.Join(params, "&")
		}
	}
	return strings.TrimPrefix(query+"&i="+placeholder, "&")
}

// request returns the request for key i.
func (t *template) request(ctx context.Context, i int) (*http.Request, error) {
	key := strconv.Itoa(i)
	fill := func(s string) string { return strings.ReplaceAll(s, placeholder, key) }

	var body io.Reader
	if t.body != "" {
		body = strings.NewReader(fill(t.body))
	}
	r, err := http.NewRequestWithContext(ctx, t.method, "http://host", body)
	if err != nil {
		return nil, errors.New("load: method: not a valid HTTP method")
	}
	// The URL was parsed once. Filling its parts is cheaper than parsing it again for each request,
	// of which there may be many thousands a second.
	u := *t.url
	u.Path, u.RawPath, u.RawQuery = fill(u.Path), fill(u.RawPath), fill(u.RawQuery)
	r.URL, r.Host = &u, fill(t.host)
	r.Header = t.header
	// Requests share the header, which the client does not change. Only one with a placeholder is
	// copied.
	if len(t.keyed) > 0 {
		r.Header = t.header.Clone()
		for _, name := range t.keyed {
			for j, v := range r.Header[name] {
				r.Header[name][j] = fill(v)
			}
		}
	}
	return r, nil
}
