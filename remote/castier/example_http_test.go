package castier_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// web is a castier.Store over a service that speaks HTTP with entity tags.
type web struct {
	base   string // the URL of the service, with a slash at its end
	client *http.Client
}

// send sends one request, and returns the status, the header and the body of the reply.
func (w *web) send(ctx context.Context, method, key string, body []byte, header http.Header) (int, http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.base+url.PathEscape(key), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header = header
	reply, err := w.client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(reply.Body)
	return reply.StatusCode, reply.Header, data, err
}

// each calls f for n keys, some at a time, and returns the errors of the keys.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = f(i)
			<-slots
		})
	}
	wg.Wait()
	return remote.JoinKeys(errs)
}

// GetMany implements castier.Store.
func (w *web) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	items := make([]castier.Item, len(keys))
	err := each(len(keys), func(i int) error {
		status, header, data, err := w.send(ctx, http.MethodGet, keys[i], nil, http.Header{})
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			items[i] = castier.Item{Value: data, Version: castier.Version{Text: header.Get("ETag")}}
		case status != http.StatusNotFound:
			return fmt.Errorf("web: status %d", status)
		}
		return nil
	})
	return items, err
}

// SwapMany implements castier.Store. A request is sent only once: the answer to a second one
// could hide that the first has written.
func (w *web) SwapMany(ctx context.Context, swaps []castier.Swap) ([]bool, error) {
	swapped := make([]bool, len(swaps))
	err := each(len(swaps), func(i int) error {
		s := swaps[i]
		header := http.Header{"If-None-Match": {"*"}, "Life": {strconv.Itoa(int(s.Life / time.Second))}}
		if s.Version.Text != "" {
			header.Del("If-None-Match")
			header.Set("If-Match", s.Version.Text)
		}
		status, _, _, err := w.send(ctx, http.MethodPut, s.Key, s.Value, header)
		switch {
		case err != nil:
			return err
		case status == http.StatusRequestEntityTooLarge:
			return remote.ErrValueTooLarge
		case status != http.StatusNoContent && status != http.StatusPreconditionFailed:
			return fmt.Errorf("web: status %d", status)
		}
		swapped[i] = status == http.StatusNoContent
		return nil
	})
	return swapped, err
}

// Now implements castier.Clock: the date of the service, in whole seconds.
func (w *web) Now(ctx context.Context) (t time.Time, step time.Duration, err error) {
	_, header, _, err := w.send(ctx, http.MethodHead, "clock", nil, http.Header{})
	if err != nil {
		return t, 0, err
	}
	t, err = http.ParseTime(header.Get("Date"))
	return t, time.Second, err
}

// A Tier over a service with an HTTP interface, which compares entity tags.
func ExampleStore() {
	tier := castier.New(&web{"http://items.internal/", http.DefaultClient}) // sends no request yet
	fmt.Println(tier.Servers())
	// Output:
	// [store]
}
