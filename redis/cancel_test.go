package redis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

var cancellations = flag.Int("cancellations", 3000, "how many calls are cancelled, at least")

// sharedCalls and ownCalls return the value of key in different ways: over the
// connection that all share, and over one of their own.
func sharedCalls() []func(ctx context.Context, c *redis.Client, key string) error {
	return []func(ctx context.Context, c *redis.Client, key string) error{
		func(ctx context.Context, c *redis.Client, key string) error {
			v, err := get(ctx, c, key)
			return kit.HasWorth(key, v, err)
		},
		func(ctx context.Context, c *redis.Client, key string) error {
			v, err := c.Do(ctx, "GET", key).String()
			return kit.HasWorth(key, v, err)
		},
	}
}

func ownCalls() []func(ctx context.Context, c *redis.Client, key string) error {
	return []func(ctx context.Context, c *redis.Client, key string) error{
		func(ctx context.Context, c *redis.Client, key string) error {
			var b strings.Builder
			_, err := c.GetTo(ctx, key, &b)
			return kit.HasWorth(key, b.String(), err)
		},
		func(ctx context.Context, c *redis.Client, key string) error {
			p := c.Pipeline()
			p.Get(key + "a")
			p.Add("ECHO", key)
			p.Get(key + "b")
			return p.Each(ctx, func(i int, r redis.Reply) error {
				v, err := r.String()
				if i == 1 {
					if v != key || err != nil {
						return fmt.Errorf("%s: echo of %q, %w", key, v, err)
					}
					return nil
				}
				return kit.HasWorth([]string{key + "a", "", key + "b"}[i], v, err)
			})
		},
		func(ctx context.Context, c *redis.Client, key string) error {
			keys := []string{key + "a", key + "b", key + "c"}
			return c.MGet(ctx, keys, func(i int, v []byte, _ bool) error { return kit.HasWorth(keys[i], string(v), nil) })
		},
		func(ctx context.Context, c *redis.Client, key string) error {
			tx := c.Multi()
			tx.Get(key)
			replies, err := tx.Do(ctx)
			if err != nil {
				return err
			}
			v, err := replies[0].String()
			return kit.HasWorth(key, v, err)
		},
	}
}

// cancelled makes calls by several callers, most of them with little time, and
// returns how many were cancelled.
func cancelled(t *testing.T, seed uint64, calls int, ways []func(ctx context.Context, c *redis.Client, key string) error) (cut, dials int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	slow := time.Duration(1+rng.IntN(3000)) * time.Microsecond
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxConns = 2 + rng.IntN(6)
		s.Window = []int{1024, 2000, 16 << 10, 0}[rng.IntN(4)]
		slices := []int{0, 1, 7, 100}
		s.OnDial = func(n int, client *netsim.Conn) { client.Slice(slices[(n+int(seed))%4]) }
		for name, h := range map[string]fakes.RedisHandler{
			"GET": func(ss *fakes.RedisSession, args [][]byte) { ss.Bulk(kit.Worth(string(args[1]))) },
			"MGET": func(ss *fakes.RedisSession, args [][]byte) {
				ss.Out = fmt.Appendf(ss.Out, "*%d\r\n", len(args)-1)
				for _, k := range args[1:] {
					ss.Bulk(kit.Worth(string(k)))
				}
			},
		} {
			s.Handle(name, func(ss *fakes.RedisSession, args [][]byte) {
				at := uint64(len(args[1]))<<8 + uint64(args[1][len(args[1])/2])
				kit.Haltingly(&ss.Out, ss.Flush, rand.New(rand.NewPCG(seed, at)), slow, func() { h(ss, args) })
			})
		}
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		callers := 1 + rng.IntN(16)
		for g := range callers {
			rng := rand.New(rand.NewPCG(seed, uint64(g+1)))
			wg.Go(func() {
				for i := range calls / callers {
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
		dials = s.Dials()
	})
	return cut, dials
}

// TestCancelledCallsNeverMixReplies: every caller gets the reply to its own
// command, also after other callers have left, and callers that share a
// connection keep it.
func TestCancelledCallsNeverMixReplies(t *testing.T) {
	const calls = 500
	all := append(sharedCalls(), ownCalls()...)
	total := 0
	for seed := uint64(1); total < kit.Rounds(*cancellations); seed++ {
		ways, most := all, calls
		if seed%2 == 0 {
			// A shared one, one for large commands, and one in reserve.
			ways, most = sharedCalls(), 3
		}
		cut, dials := cancelled(t, seed, calls, ways)
		if total += cut; dials > most && seed%2 == 0 || dials > cut+10 {
			t.Errorf("seed %d: %d connections for %d cancelled calls", seed, dials, cut)
		}
		if t.Failed() {
			return
		}
		if seed == 20 && total == 0 {
			t.Fatal("nothing is cancelled")
		}
	}
}

// TestReadsGetPastAWriteThatIsHeldBack: as the server holds writes back during a
// planned failover, for longer than calls wait.
func TestReadsGetPastAWriteThatIsHeldBack(t *testing.T) {
	var held atomic.Bool
	change := func(s *fakes.Redis, _ *redis.Options) {
		keep(s)
		s.Handle("SET", func(ss *fakes.RedisSession, _ [][]byte) {
			for held.Load() { // in the bubble
				time.Sleep(10 * time.Millisecond)
			}
			ss.Status("OK")
		})
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		end := time.Now().Add(10 * time.Second)
		held.Store(true)
		time.AfterFunc(5*time.Second, func() { held.Store(false) })
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for time.Now().Before(end) {
					err := c.Set(t.Context(), "k", []byte("own"), 0)
					if !errors.Is(err, os.ErrDeadlineExceeded) && err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		slow := 0
		for g := range 8 {
			wg.Go(func() {
				for time.Now().Before(end) {
					start := time.Now()
					v, err := get(t.Context(), c, "k")
					took := time.Since(start)
					if v != "own" || err != nil || took > 300*time.Millisecond {
						t.Errorf("%q, %v after %v", v, err, took)
					}
					if g == 0 && took > 10*time.Millisecond {
						slow++
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		if slow > 1 {
			t.Errorf("%d reads of one caller waited behind a write", slow)
		}
		if err := c.Set(t.Context(), "k", []byte("own"), 0); err != nil {
			t.Error(err)
		}
		get(t.Context(), c, "k")
		if n := s.Dials(); n > 12 {
			t.Errorf("%d connections", n)
		}
	})
}
