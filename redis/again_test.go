package redis_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// TestReadAtAStuckConnectionLooksForAnotherOneAgain: it has found none at first, as no connection could be opened for a while. After the
// timeout it is the next read, at the time other, that finds one for both.
func TestReadAtAStuckConnectionLooksForAnotherOneAgain(t *testing.T) {
	for _, c := range []struct{ down, other, late time.Duration }{
		{down: 400 * time.Millisecond, late: 501 * time.Millisecond},
		{down: 600 * time.Millisecond, late: 751 * time.Millisecond},
		{down: 1200 * time.Millisecond, other: 3 * time.Second, late: 3001 * time.Millisecond},
	} {
		var d dials
		var down atomic.Bool
		change := func(s *fakes.Redis, o *redis.Options) {
			o.MaxConns = 4
			d.of(s, o)
			dial := s.Dial
			o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if down.Load() {
					return nil, fakes.ErrRefused
				}
				return dial(ctx, network, addr)
			}
		}
		fake(t, change, func(t *testing.T, _ *fakes.Redis, client *redis.Client) {
			mustSet(t, client, "k", "v")
			d.forget(1)
			down.Store(true)
			time.AfterFunc(c.down, func() { down.Store(false) })
			var wg sync.WaitGroup
			if c.other > 0 {
				wg.Go(func() {
					time.Sleep(c.other) // in the bubble
					mustGet(t, client, "k", "v")
				})
			}
			start := time.Now()
			v, err := get(kit.Within(t, 10*time.Second), client, "k")
			if took := time.Since(start); took > c.late || v != "v" || err != nil {
				t.Errorf("%+v: %q, %v after %v", c, v, err, took)
			}
			wg.Wait()
		})
	}
}
