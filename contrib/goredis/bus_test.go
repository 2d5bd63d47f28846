package goredis_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/contrib/goredis"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/remote"
)

// follow follows the cache n on a new bus. told returns the events since its
// last call.
func follow(t *testing.T, rdb *redis.Client) (told func() []remote.State, stop func()) {
	t.Helper()
	bus, err := goredis.NewBus(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return followOn(t, bus)
}

// followOn is follow on a bus.
func followOn(t *testing.T, bus *goredis.Bus) (told func() []remote.State, stop func()) {
	t.Helper()
	events := make(chan remote.State, 100)
	stop = bus.Follow("n", func(e remote.Event) {
		if e.State != remote.Delivered || len(e.Messages) > 0 { // else a sign that the bus is in order
			events <- e.State
		}
	})
	t.Cleanup(stop)
	return func() (all []remote.State) {
		synctest.Wait()
		for len(events) > 0 {
			all = append(all, <-events)
		}
		return all
	}, stop
}

func wantTold(t *testing.T, when string, got []remote.State, want ...remote.State) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: told %v; want %v", when, got, want)
	}
}

// TestLostConnectionIsAGap and go-redis does not replace it unseen.
func TestLostConnectionIsAGap(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		told, _ := follow(t, rdb)
		wantTold(t, "at first", told(), remote.Connected)
		s.Drop()
		wantTold(t, "when it was lost", told(), remote.Gap)
		if n := s.Dials(); n != 2 { // and one that writes go over
			t.Errorf("%d connections were opened before the gap was told; want 2", n)
		}
		time.Sleep(10 * time.Second)
		wantTold(t, "when it was replaced", told(), remote.Connected)
		s.Publish(layout.Channel("n", 0), layout.Message(&remote.Message{Name: "n", Kind: remote.Dropped, Key: "k"}))
		wantTold(t, "when something was dropped", told(), remote.Delivered)
		s.Publish(layout.Channel("n", 0), "no message")
		wantTold(t, "when another program used the channel", told(), remote.Delivered) // without a kind
		s.Stop()
		time.Sleep(time.Minute)
		wantTold(t, "while the server is down", told(), remote.Gap)
		s.Start()
		time.Sleep(time.Minute)
		wantTold(t, "when it is back", told(), remote.Connected)
		if n := s.Dials(); n > 150 { // pauses grow to half a second at least
			t.Errorf("%d connections were tried in two minutes", n)
		}
	})
}

func TestSilentConnectionIsAGap(t *testing.T) {
	var first *netsim.Conn
	fake(t, func(s *fakes.Redis, _ *redis.Options) {
		s.OnDial = func(n int, c *netsim.Conn) {
			if n == 0 {
				first = c
			}
		}
	}, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		told, _ := follow(t, rdb)
		time.Sleep(time.Hour)
		wantTold(t, "after a quiet hour", told(), remote.Connected)
		if n := s.Calls("SUBSCRIBE"); n != 2 {
			t.Fatalf("%d times subscribed, to the cache's channel and the bus's own", n)
		}
		// The middle of a message arrives, and no more.
		first.StallAfter(first.Received() + 10)
		s.Publish(layout.Channel("n", 0), strings.Repeat("x", 100))
		time.Sleep(4 * time.Second)
		got := told()
		wantTold(t, "four seconds after it fell silent", got[:min(len(got), 1)], remote.Gap)
		time.Sleep(10 * time.Second)
		if got = append(got, told()...); !slices.Equal(got, []remote.State{remote.Gap, remote.Connected}) {
			t.Errorf("told %v", got)
		}
	})
}

// TestUnacknowledgedSubscriptionIsTriedAgain has a server that takes the command
// and says nothing.
func TestUnacknowledgedSubscriptionIsTriedAgain(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		s.Handle("SUBSCRIBE", func(*fakes.RedisSession, [][]byte) {})
		s.Handle("PING", func(*fakes.RedisSession, [][]byte) {})
		told, _ := follow(t, rdb)
		time.Sleep(time.Minute)
		wantTold(t, "by a server that does not agree", told())
		if n := s.Dials(); n < 5 || n > 30 {
			t.Errorf("%d connections were tried in a minute", n)
		}
	})
}

func TestHostileMessageIsAGap(t *testing.T) {
	for name, raw := range map[string]string{
		"length near 2^62":  "*3\r\n$7\r\nmessage\r\n$8\r\nstrata:n\r\n$4611686018427387904\r\n",
		"two elements":      "*2\r\n$7\r\nmessage\r\n$8\r\nstrata:n\r\n",
		"no elements":       "*0\r\n",
		"number for a name": "*3\r\n:1\r\n:2\r\n:3\r\n",
		"payload of a kind": "*3\r\n$7\r\nmessage\r\n$8\r\nstrata:n\r\n*1\r\n:1\r\n",
		"no type":           "hello\r\n",
	} {
		fake(t, func(_ *fakes.Redis, o *redis.Options) { o.Protocol = 2 }, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
			bus, err := goredis.NewBus(rdb)
			if err != nil {
				t.Fatal(err)
			}
			var subscribe fakes.RedisHandler
			hostile := true
			subscribe = s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, args [][]byte) {
				subscribe(ss, args)
				if hostile && string(args[1]) == layout.Channel("m", 0) {
					ss.Out = append(ss.Out, raw...)
					hostile = false
				}
			})
			told, _ := followOn(t, bus)
			wantTold(t, "at first", told(), remote.Connected)
			t.Cleanup(bus.Follow("m", func(remote.Event) {}))
			time.Sleep(10 * time.Second)
			wantTold(t, name, told(), remote.Gap, remote.Connected)
		})
	}
}

// TestResubscriptionUnseenIsAGap has the server acknowledge twice, as it looks
// when go-redis has moved a subscription to another server by itself.
func TestResubscriptionUnseenIsAGap(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		bus, err := goredis.NewBus(rdb)
		if err != nil {
			t.Fatal(err)
		}
		var subscribe fakes.RedisHandler
		twice := true
		subscribe = s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, args [][]byte) {
			subscribe(ss, args)
			if twice && string(args[1]) == layout.Channel("m", 0) {
				subscribe(ss, args)
				twice = false
			}
		})
		told, _ := followOn(t, bus)
		wantTold(t, "at first", told(), remote.Connected)
		t.Cleanup(bus.Follow("m", func(remote.Event) {}))
		time.Sleep(10 * time.Second)
		wantTold(t, "by two acknowledgements", told(), remote.Gap, remote.Connected)
	})
}

func TestStopEndsAFollowerInEveryState(t *testing.T) {
	for name, change := range map[string]func(*fakes.Redis, *redis.Options){
		"connected": nil,
		"waiting for the acknowledgement": func(s *fakes.Redis, _ *redis.Options) {
			s.Handle("SUBSCRIBE", func(*fakes.RedisSession, [][]byte) {})
		},
		"waiting to try again": func(s *fakes.Redis, _ *redis.Options) { s.Stop() },
		"dialling": func(_ *fakes.Redis, o *redis.Options) {
			o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		},
	} {
		fake(t, change, func(t *testing.T, _ *fakes.Redis, rdb *redis.Client) {
			told, stop := follow(t, rdb)
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			start := time.Now()
			stop()
			if took := time.Since(start); took != 0 {
				t.Errorf("%s: stop took %v", name, took)
			}
			told()
			time.Sleep(time.Minute)
			wantTold(t, name+", afterwards", told())
		})
	}
}

func TestFollowerEndsWithItsClient(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		told, _ := follow(t, rdb)
		wantTold(t, "at first", told(), remote.Connected)
		rdb.Close()
		time.Sleep(time.Minute)
		wantTold(t, "when the client was closed", told(), remote.Gap)
		if n := goroutines("goredis.(*subscriber)"); n != 0 {
			t.Errorf("%d subscribers run still", n)
		}
		if n := s.Dials(); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestPublishIsNotSentAgain(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.MaxRetries = 5 }, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		bus, err := goredis.NewBus(rdb)
		if err != nil {
			t.Fatal(err)
		}
		m := remote.Message{Name: "n", Kind: remote.Beat}
		s.Handle("PUBLISH", func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
		for i, ms := range [][]remote.Message{{m}, {m, m}} {
			if err := bus.Publish(t.Context(), ms); err == nil {
				t.Error("no error though nobody has answered")
			}
			if n := s.Calls("PUBLISH"); n != i+1 {
				t.Errorf("%d messages were sent", n)
			}
		}
		s.Handle("PUBLISH", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM no") })
		if err := bus.Publish(t.Context(), []remote.Message{m}); !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("error %v", err)
		}
	})
}
