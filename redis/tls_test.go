package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

// encrypted runs f in a bubble with a client that reaches a model server by TLS.
// stall makes bytes for the server pile up until it is called with false.
func encrypted(t *testing.T, f func(t *testing.T, c *redis.Client, stall func(bool))) {
	t.Helper()
	config, err := fakes.TLS()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := fakes.NewRedis()
		var wg sync.WaitGroup
		defer wg.Wait()
		defer s.Close()
		var mu sync.Mutex
		var ends []*netsim.Conn
		c, err := redis.New(redis.Options{
			TLS: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				behind, err := s.Dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				client, server := netsim.Pair(4 << 10)
				mu.Lock()
				ends = append(ends, server)
				mu.Unlock()
				tc := tls.Server(server, config)
				pass := func(dst, src net.Conn) {
					io.Copy(dst, src)
					server.Close()
					behind.Close()
				}
				wg.Go(func() { pass(tc, behind) })
				wg.Go(func() { pass(behind, tc) })
				return client, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, c, func(on bool) {
			mu.Lock()
			defer mu.Unlock()
			for _, end := range ends {
				if end.StallAfter(-1); on {
					end.StallAfter(0)
				}
			}
		})
	})
}

func TestCallsOverTLSEndInTimeThoughTheServerTakesNothing(t *testing.T) {
	encrypted(t, func(t *testing.T, c *redis.Client, stall func(bool)) {
		value := make([]byte, 1<<20)
		if err := c.Set(t.Context(), "k", value, 0); err != nil {
			t.Fatal(err)
		}
		stall(true)
		start := time.Now()
		err := c.Set(kit.Within(t, 200*time.Millisecond), "k", value, 0)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 200*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
		if err := c.Set(t.Context(), "k", value, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestCallerThatLeavesInTheMiddleOfAWriteOverTLSDoesNotKeepOthers(t *testing.T) {
	encrypted(t, func(t *testing.T, c *redis.Client, stall func(bool)) {
		mustSet(t, c, "k", "v")
		stall(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			if err := c.Do(ctx, "GET", strings.Repeat("k", 10<<10)).Err(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		_, err := get(t.Context(), c, "k")
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
		wg.Wait()
		stall(false)
		if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

func TestCallerThatLeavesDuringAWriteOverTLSCostsNoOther(t *testing.T) {
	encrypted(t, func(t *testing.T, c *redis.Client, stall func(bool)) {
		mustSet(t, c, "k", "v")
		stall(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.Do(kit.Within(t, 50*time.Millisecond), "GET", strings.Repeat("k", 10<<10)).Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			time.Sleep(10 * time.Millisecond)
			if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		})
		time.Sleep(55 * time.Millisecond)
		stall(false)
		wg.Wait()
	})
}
