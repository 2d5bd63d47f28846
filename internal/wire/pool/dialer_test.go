package pool_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// hosts are addresses with the outcome of a dial to each.
type hosts struct {
	names   []string
	answers map[string]func(ctx context.Context) error

	mu   sync.Mutex // guards below
	all  []string   // dialled
	open int
}

// closing is a connection that reports its Close, so that tests can count
// the open ones.
type closing struct {
	net.Conn
	close func()
}

func (c closing) Close() error {
	c.close()
	return c.Conn.Close()
}

func (h *hosts) dialer() pool.Dialer {
	return pool.Dialer{
		Resolve: func(_ context.Context, network, _ string) (ips []netip.Addr, err error) {
			for _, n := range h.names {
				if ip := netip.MustParseAddr(n); network == "ip" || ip.Is4() == (network == "ip4") {
					ips = append(ips, ip)
				}
			}
			if len(ips) == 0 {
				err = errRefused
			}
			return ips, err
		},
		Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(addr)
			h.mu.Lock()
			h.all = append(h.all, host)
			h.mu.Unlock()
			if f := h.answers[host]; f != nil {
				if err := f(ctx); err != nil {
					return nil, err
				}
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.open++
			a, _ := netsim.Pair(0)
			return closing{a, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.open--
			}}, nil
		},
	}
}

func blackHole(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func refuses(context.Context) error       { return errRefused }
func slow(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil } // in the bubble
}

// TestAddressThatDoesNotAnswerCostsAHeadStart: a refusing address costs
// nothing.
func TestAddressThatDoesNotAnswerCostsAHeadStart(t *testing.T) {
	for name, tc := range map[string]struct {
		network string
		names   []string
		answers map[string]func(context.Context) error
		took    time.Duration
		dialled []string
		err     error
	}{
		"first is well":    {"tcp", []string{"10.0.0.1", "10.0.0.2"}, nil, 0, []string{"10.0.0.1"}, nil},
		"first is a hole":  {"tcp", []string{"10.0.0.1", "10.0.0.2"}, map[string]func(context.Context) error{"10.0.0.1": blackHole}, 250 * time.Millisecond, []string{"10.0.0.1", "10.0.0.2"}, nil},
		"first refuses":    {"tcp", []string{"10.0.0.1", "10.0.0.2"}, map[string]func(context.Context) error{"10.0.0.1": refuses}, 0, []string{"10.0.0.1", "10.0.0.2"}, nil},
		"families":         {"tcp", []string{"fd00::1", "fd00::2", "10.0.0.1"}, map[string]func(context.Context) error{"fd00::1": blackHole, "fd00::2": blackHole}, 250 * time.Millisecond, []string{"fd00::1", "10.0.0.1"}, nil},
		"one family":       {"tcp4", []string{"fd00::1", "10.0.0.1"}, nil, 0, []string{"10.0.0.1"}, nil},
		"both come":        {"tcp", []string{"10.0.0.1", "10.0.0.2"}, map[string]func(context.Context) error{"10.0.0.1": slow(300 * time.Millisecond), "10.0.0.2": slow(50 * time.Millisecond)}, 300 * time.Millisecond, []string{"10.0.0.1", "10.0.0.2"}, nil},
		"all refuse":       {"tcp", []string{"10.0.0.1", "10.0.0.2"}, map[string]func(context.Context) error{"10.0.0.1": refuses, "10.0.0.2": refuses}, 0, []string{"10.0.0.1", "10.0.0.2"}, errRefused},
		"all are holes":    {"tcp", []string{"10.0.0.1", "10.0.0.2"}, map[string]func(context.Context) error{"10.0.0.1": blackHole, "10.0.0.2": blackHole}, 5 * time.Second, []string{"10.0.0.1", "10.0.0.2"}, context.DeadlineExceeded},
		"name is unknown":  {"tcp", nil, nil, 0, nil, errRefused},
		"path of a socket": {"unix", nil, nil, 0, []string{""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hosts{names: tc.names, answers: tc.answers}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				start := time.Now()
				addr := "redis.example:6379"
				if tc.network == "unix" {
					addr = "/run/redis.sock"
				}
				nc, err := h.dialer().DialContext(ctx, tc.network, addr)
				if took := time.Since(start); took != tc.took || !errors.Is(err, tc.err) || (nc == nil) == (err == nil) {
					t.Errorf("%v after %v", err, took)
				}
				synctest.Wait()
				want := 0
				if err == nil {
					want = 1
				}
				if !slices.Equal(h.all, tc.dialled) || h.open != want {
					t.Errorf("%q were dialled, %d are open", h.all, h.open)
				}
			})
		})
	}
}

func TestDialerDialsAsPackageNetDoes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost"} {
		nc, err := pool.Dialer{}.DialContext(t.Context(), "tcp4", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	}
}
