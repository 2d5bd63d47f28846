package redis_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

// TestMaxLifetimeHoldsWhileOthersAreAlwaysWaiting: under load the shared connection owes a reply at
// any time.
func TestMaxLifetimeHoldsWhileOthersAreAlwaysWaiting(t *testing.T) {
	dials := 0
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxLifetime = time.Second
		s.OnDial = func(n int, _ *netsim.Conn) { dials = n + 1 }
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
			time.Sleep(time.Millisecond)
			ss.Out = append(ss.Out, "$1\r\nv\r\n"...)
		})
		end := time.Now().Add(10 * time.Second)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for time.Now().Before(end) {
					if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
						t.Errorf("%q, %v", v, err)
						return
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if dials < 9 || dials > 12 {
			t.Errorf("%d connections were opened in 10 s", dials)
		}
		if n := s.Open(); n > 2 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// TestReaderIsNotTouchedAfterTheContextHasEnded: it might wait for ever.
func TestReaderIsNotTouchedAfterTheContextHasEnded(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := strings.NewReader(strings.Repeat("x", 300_000))
		for _, size := range []int64{-1, 10, 200_000, 300_000} {
			_, err := c.Stream(ctx, "SET", "k", redis.Body{Reader: r, Size: size})
			for _, err := range []error{err, c.SetFrom(ctx, "k", r, size, 0)} {
				if !errors.Is(err, context.Canceled) || !errors.As(err, new(*redis.ConnError)) || r.Len() != 300_000 {
					t.Errorf("size %d: %v, %d bytes are left", size, err, r.Len())
				}
			}
		}
	})
}

// TestReaderThatMakesNoProgressIsAnError: it would never be left.
func TestReaderThatMakesNoProgressIsAnError(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		for _, first := range []int{0, 10, 70_000} {
			for _, size := range []int64{-1, 200_000} {
				r := io.MultiReader(strings.NewReader(strings.Repeat("x", first)), idleReader{})
				if err := c.SetFrom(t.Context(), "k", r, size, 0); !errors.Is(err, io.ErrNoProgress) {
					t.Errorf("size %d after %d bytes: %v", size, first, err)
				}
			}
		}
		synctest.Wait()
		if v, err := get(t.Context(), c, "k"); v != "old" || err != nil {
			t.Errorf("%d bytes, %v", len(v), err)
		}
	})
}

// TestReaderThatLiesAboutItsCountIsAnError: bytes behind its buffer are not part
// of the value.
func TestReaderThatLiesAboutItsCountIsAnError(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		for _, count := range []int{-1, 65<<10 + 1, math.MaxInt} {
			for _, size := range []int64{-1, 10, 200_000} {
				liar := readerFunc(func([]byte) (int, error) { return count, nil })
				if err := c.SetFrom(t.Context(), "k", liar, size, 0); err == nil {
					t.Errorf("size %d: a count of %d was believed", size, count)
				}
			}
		}
		if v, err := get(t.Context(), c, "k"); v != "old" || err != nil {
			t.Errorf("%d bytes, %v", len(v), err)
		}
	})
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func TestCommandsThatChangeTheConnectionAreRefusedInEveryWay(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		for _, args := range [][]any{
			{"SCRIPT", "DEBUG", "YES"},
			{"script", []byte("debug"), "sync"},
			{"CLIENT", "SETNAME", "x"},
			{"CLIENT", "no-evict", "on"},
			{"CLIENT", "NO-TOUCH", "on"},
			{"CLIENT", "CAPA", "redirect"},
			{"CLIENT", "import-source", "on"},
			{"CLIENT", "SETINFO", "LIB-NAME", "x"},
			{"client", "reply", "off"},
			{"CLIENT", "TRACKING", "on"},
			{[]byte("select"), 1},
			{"subscribe", "a"},
			{"Monitor"},
		} {
			p, m := c.Pipeline(), c.Multi()
			p.Add(args...)
			m.Add(args...)
			_, err1 := p.Do(t.Context())
			_, err2 := m.Do(t.Context())
			_, err3 := c.Stream(t.Context(), args...)
			for _, err := range []error{c.Do(t.Context(), args...).Err(), err1, err2, err3} {
				if err == nil || !strings.Contains(err.Error(), "changes the connection") {
					t.Errorf("%s: %v", args, err)
				}
			}
		}
		if err := c.Do(t.Context(), "SCRIPT", "EXISTS", "x").Err(); err != nil && strings.Contains(err.Error(), "changes") {
			t.Error(err)
		}
	})
}
