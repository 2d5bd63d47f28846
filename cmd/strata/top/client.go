package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/wire"
)

const (
	// maxAnswer is the largest length of an answer, maxRefusal the largest length of the text of a
	// refusal, in bytes.
	maxAnswer, maxRefusal = 8 << 20, 4 << 10
	// patience is the time for an answer.
	patience = 5 * time.Second
)

// client asks the page of package admin.
type client struct {
	base  *url.URL
	token string // empty without one
	http  *http.Client
}

// newClient returns a client of the page at an address, such as
// http://127.0.0.1:8080/debug/strata/?token=abc.
func newClient(address string) (*client, error) {
	u, err := wire.ParseHTTP(address)
	if err != nil {
		return nil, errors.New("want the URL of a page of caches, such as http://127.0.0.1:8080/debug/strata/?token=TOKEN")
	}
	// The token goes into a header, and not into the addresses of requests, which logs and errors
	// may show.
	q, err := wire.Query(u)
	if err != nil {
		return nil, err
	}
	token := q.Get("token")
	u.RawQuery, u.Fragment = "", ""
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	// A redirect would take the token elsewhere, or from https to http.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{u, token, &http.Client{Timeout: patience, CheckRedirect: stay}}, nil
}

// get asks for the JSON of a path, and decodes it into v.
func (c *client) get(ctx context.Context, path string, query url.Values, v any) error {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return wire.CleanError(err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	a, err := c.http.Do(r)
	if err != nil {
		return wire.CleanError(err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return refusal(a)
	}
	if err := json.NewDecoder(io.LimitReader(a.Body, maxAnswer)).Decode(v); err != nil {
		return errors.New("the answer is not that of a page of caches")
	}
	return nil
}

// refusal is the error of an answer with another status than 200.
func refusal(a *http.Response) error {
	var f struct {
		Error string `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(a.Body, maxRefusal)).Decode(&f) == nil && f.Error != "" {
		return errors.New(f.Error)
	}
	return fmt.Errorf("the server answers %d, which no page of caches does", a.StatusCode)
}

func (c *client) overview(ctx context.Context) (o api.Overview, err error) {
	return o, c.get(ctx, "api/caches", nil, &o)
}

func (c *client) detail(ctx context.Context, name string) (d api.Detail, err error) {
	return d, c.get(ctx, "api/cache", url.Values{"name": {name}, "samples": {"1"}}, &d)
}

func (c *client) explain(ctx context.Context, name, key string) (e api.Explained, err error) {
	return e, c.get(ctx, "api/explain", url.Values{"name": {name}, "key": {key}}, &e)
}
