package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/observe/page"
)

func (p *Page) tune(w http.ResponseWriter, r *http.Request) {
	var b api.Tune
	if err := read(r, &b); err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	p.act(w, r, b.Name, "The options of this instance are changed.", func(_ context.Context, c *shown) error {
		t, err := tuningOf(&b)
		if err != nil {
			return err
		}
		return c.cache.Tune(t)
	})
}

// tuningOf returns the changes that a request asks for.
func tuningOf(b *api.Tune) (strata.Tuning, error) {
	t := strata.Tuning{MaxEntries: b.MaxEntries, MaxWeight: b.MaxWeight, Off: b.Off}
	// A request that changes nothing is a mistake, and must not look like a success.
	if t == (strata.Tuning{}) && b.TTL == nil && b.StaleWhileRevalidate == nil && b.StaleOnError == nil {
		return t, errors.New("admin: no option is named")
	}
	var errs []error
	for _, field := range []struct {
		name string
		text *string
		none time.Duration
		to   **time.Duration
	}{
		{"ttl", b.TTL, strata.NoExpiry, &t.TTL},
		{"staleWhileRevalidate", b.StaleWhileRevalidate, 0, &t.StaleWhileRevalidate},
		{"staleOnError", b.StaleOnError, 0, &t.StaleOnError},
	} {
		// An option that is not named stays as it is.
		if field.text == nil {
			continue
		}
		d, err := durationOf(*field.text, field.none)
		if err != nil {
			errs = append(errs, fmt.Errorf("admin: %s is a duration such as 1m30s, or none", field.name))
		}
		*field.to = &d
	}
	return t, errors.Join(errs...)
}

// durationOf returns the duration of a text, or none for "none", and for "no end", as settings
// have it.
func durationOf(text string, none time.Duration) (time.Duration, error) {
	if text == "none" || text == "no end" {
		return none, nil
	}
	return time.ParseDuration(text)
}
