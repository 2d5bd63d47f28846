package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/observe/page"
)

// Times that calls of a cache may take. Instances answer an explanation within a second.
const (
	explainTimeout = 5 * time.Second
	actionTimeout  = 10 * time.Second
)

func (p *Page) serveExplain(w http.ResponseWriter, r *http.Request) {
	q := page.QueryOf(r)
	c, _, err := p.named(q)
	if err != nil {
		page.Fail(w, statusOf(err), err)
		return
	}
	key, err := q.Text("key", api.MaxKey)
	if err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	// An explanation asks all instances and the server, so few of them run at once.
	end := p.begin()
	if end == nil {
		w.Header().Set("Retry-After", "2")
		page.Fail(w, http.StatusServiceUnavailable, errBusy)
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	answer := api.Explained{Key: key, Instances: []api.Explanation{}}
	all, err := c.panel.Explain(ctx, key)
	if err != nil {
		answer.Error = err.Error()
	}
	for _, e := range all {
		x := api.Explanation(e)
		// A script wants a list in JSON, also an empty one, and not null.
		x.Tags = append([]string{}, e.Tags...)
		answer.Instances = append(answer.Instances, x)
	}
	page.Write(w, answer)
}

func (p *Page) invalidate(w http.ResponseWriter, r *http.Request) {
	var b api.Key
	if err := read(r, &b); err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	if len(b.Key) > api.MaxKey {
		page.Fail(w, http.StatusBadRequest, fmt.Errorf("admin: the key has more than %d bytes", api.MaxKey))
		return
	}
	p.act(w, r, b.Name, did(b.Soft, "The key is"), func(ctx context.Context, c *shown) error {
		return c.panel.Invalidate(ctx, b.Key, b.Soft)
	})
}

func (p *Page) tags(w http.ResponseWriter, r *http.Request) {
	var b api.Tags
	err := read(r, &b)
	switch {
	case err != nil:
	case len(b.Tags) == 0 || len(b.Tags) > api.MaxTags:
		err = fmt.Errorf("admin: an action has 1 to %d tags", api.MaxTags)
	case slices.ContainsFunc(b.Tags, func(t string) bool { return t == "" || len(t) > api.MaxKey }):
		err = fmt.Errorf("admin: a tag has 1 to %d bytes", api.MaxKey)
	}
	if err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	p.act(w, r, b.Name, did(b.Soft, "All entries with one of the tags are"), func(ctx context.Context, c *shown) error {
		return c.panel.InvalidateTags(ctx, b.Tags, b.Soft)
	})
}

func (p *Page) all(w http.ResponseWriter, r *http.Request) {
	var b api.All
	if err := read(r, &b); err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	p.act(w, r, b.Name, did(b.Soft, "All entries of the cache are"), func(ctx context.Context, c *shown) error {
		return c.panel.InvalidateAll(ctx, b.Soft)
	})
}

// did is the sentence about a finished drop.
func did(soft bool, subject string) string {
	if soft {
		return subject + " expired: a value is stale, and is loaded again when it is read."
	}
	return subject + " invalidated."
}

// act calls a cache, and answers with the result.
func (p *Page) act(w http.ResponseWriter, r *http.Request, name, done string, call func(context.Context, *shown) error) {
	c, _, err := p.find(name)
	if err != nil {
		page.Fail(w, http.StatusNotFound, err)
		return
	}
	end := p.begin()
	if end == nil {
		w.Header().Set("Retry-After", "2")
		page.Fail(w, http.StatusServiceUnavailable, errBusy)
		return
	}
	defer end()
	// A running action is not given up because a browser leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	begun := time.Now()
	err = call(ctx, c)
	// The state after the call says what an error means: whether a drop is pending, or the bus has
	// told other instances.
	s, i := c.cache.Stats(), c.panel.Info()
	o := api.Outcome{
		OK: err == nil, Took: time.Since(begun), HasL2: i.L2 != "", BreakerOpen: s.BreakerOpen,
		HasBus: i.Bus != "", Connected: s.Connected, Pending: s.Pending,
	}
	if err != nil {
		o.Error = err.Error()
	} else {
		o.Did = done
	}
	page.Write(w, o)
}

var (
	errType = errors.New("admin: the body of an action is JSON (application/json) or a form (application/x-www-form-urlencoded)")
	errForm = errors.New("admin: the form cannot be read")
)

// read decodes the body of an action: JSON, or a form with the same names.
func read(r *http.Request, v any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/json":
		return page.ReadJSON(r, v)
	case err == nil && kind == "application/x-www-form-urlencoded":
		return readForm(r, v)
	}
	return errType
}

// readForm makes JSON of a form: names and types are checked in one place.
func readForm(r *http.Request, v any) error {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return err
	}
	values, err := url.ParseQuery(body.String())
	if err != nil {
		return errForm
	}
	for _, text := range slices.Concat(slices.Collect(maps.Values(values))...) {
		// In JSON such bytes would become others, and the action would be about another key.
		if !utf8.ValidString(text) {
			return errForm
		}
	}
	object := map[string]any{}
	for name, all := range values {
		switch {
		case name == "tags":
			object[name] = all
		case len(all) != 1:
			return fmt.Errorf("admin: %s is given more than once", name)
		// These are no texts in JSON. Their words are taken as they are, and checked with the rest.
		case slices.Contains([]string{"soft", "off", "maxEntries", "maxWeight"}, name):
			object[name] = json.RawMessage(all[0])
		default:
			object[name] = all[0]
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return errForm
	}
	return page.DecodeJSON(text, v)
}
