package memcached_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/memcached"
)

var cancellations = flag.Int("cancellations", 1000, "how many calls are cancelled, at least")

// ways return the value of a key in different ways.
var ways = []func(ctx context.Context, c *memcached.Client, key string) error{ // read-only
	func(ctx context.Context, c *memcached.Client, key string) error {
		v, err := get(ctx, c, key)
		return kit.HasWorth(key, v, err)
	},
	func(ctx context.Context, c *memcached.Client, key string) error {
		item, err := c.Get(ctx, key)
		return kit.HasWorth(key, string(item.Value), err)
	},
	func(ctx context.Context, c *memcached.Client, key string) error {
		var b strings.Builder
		_, err := c.GetTo(ctx, key, &b)
		return kit.HasWorth(key, b.String(), err)
	},
	func(ctx context.Context, c *memcached.Client, key string) error {
		keys := []string{key + "a", key + "b", key + "c"}
		items, err := c.GetMany(ctx, keys)
		for _, k := range keys {
			if it, ok := items[k]; ok {
				if err := kit.HasWorth(k, string(it.Value), nil); err != nil {
					return err
				}
			} else if err == nil {
				return fmt.Errorf("%s is missing", k)
			}
		}
		return err
	},
}

// valued answers a read with the worth of its keys.
func valued(ss *fakes.MemcachedSession, c *meta.Command) {
	if c.Name == "mg" {
		opaque, _ := c.Flags.Get('O')
		v := kit.Worth(string(c.Key))
		ss.Out = fmt.Appendf(ss.Out, "VA %d f0 O%s c7\r\n%s\r\n", len(v), opaque, v)
		return
	}
	for _, key := range c.Args {
		ss.Out = meta.AppendItem(ss.Out, string(key), 0, 7, []byte(kit.Worth(string(key))))
	}
	ss.Line("END")
}

// cancelled makes calls by several callers, many of them with little time, and
// returns how many were cancelled.
func cancelled(t *testing.T, seed uint64) (cut int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	slow := time.Duration(1+rng.IntN(3000)) * time.Microsecond
	change := func(s *fakes.Memcached, o *memcached.Options) {
		o.MaxConns = 2 + rng.IntN(6)
		s.Generation = []fakes.Generation{fakes.V1618, fakes.Old}[seed%2]
		s.Window = []int{1024, 2000, 16 << 10, 0}[rng.IntN(4)]
		slices := []int{0, 1, 7, 100}
		s.OnDial = func(n int, client *netsim.Conn) { client.Slice(slices[(n+int(seed))%4]) }
		s.Gate = func(ss *fakes.MemcachedSession, c *meta.Command) bool {
			known := c.Name == "mg" && c.Flags.Has('v') || strings.HasPrefix(c.Name, "get") && !strings.Contains(string(c.Args[0]), "/")
			if known {
				kit.Haltingly(&ss.Out, ss.Flush, rand.New(rand.NewPCG(seed, uint64(len(ss.Out)))), slow, func() { valued(ss, c) })
			}
			return known
		}
	}
	fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		callers := 1 + rng.IntN(16)
		for g := range callers {
			rng := rand.New(rand.NewPCG(seed, uint64(g+1)))
			wg.Go(func() {
				for i := range 500 / callers {
					err := kit.Hurry(t.Context(), rng, slow*time.Duration(callers), func(ctx context.Context) error {
						return ways[rng.IntN(len(ways))](ctx, c, fmt.Sprintf("<%d:%d>", g, i))
					})
					mu.Lock()
					switch {
					case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
						cut++
					case err != nil:
						t.Errorf("seed %d: %v", seed, err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if v, err := get(t.Context(), c, "last"); v != kit.Worth("last") || err != nil {
			t.Errorf("seed %d: the last call: %.40q, %v", seed, v, err)
		}
	})
	return cut
}

// TestCancelledCallsNeverMixReplies: every call returns the value of its own key,
// also after other callers have left.
func TestCancelledCallsNeverMixReplies(t *testing.T) {
	for seed, total := uint64(1), 0; total < kit.Rounds(*cancellations) && !t.Failed(); seed++ {
		if total += cancelled(t, seed); seed == 20 && total == 0 {
			t.Fatal("nothing is cancelled")
		}
	}
}
