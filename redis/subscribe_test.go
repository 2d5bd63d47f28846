package redis_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

// next takes an event that must come within a minute.
func next(t *testing.T, s *redis.Subscription) redis.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func want(t *testing.T, s *redis.Subscription, kind redis.EventKind, text string) redis.Event {
	t.Helper()
	e := next(t, s)
	if got := strings.TrimSuffix(e.Channel+":"+string(e.Payload), ":"); e.Kind != kind || got != text {
		t.Fatalf("event %d %q, want %d %q", e.Kind, got, kind, text)
	}
	return e
}

func none(t *testing.T, s *redis.Subscription, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if e, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("unexpected event %+v, %v", e, err)
	}
}

func TestSubscription(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old=%v", old), func(t *testing.T) {
			fake(t, func(s *fakes.Redis, _ *redis.Options) { s.Old = old }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				sub, err := c.Subscribe(t.Context(), "a", "b")
				if err != nil {
					t.Fatal(err)
				}
				want(t, sub, redis.Subscribed, "")
				if err := sub.Err(); err != nil {
					t.Error(err)
				}
				c.Do(t.Context(), "PUBLISH", "a", "1")
				c.Do(t.Context(), "PUBLISH", "other", "2")
				c.Do(t.Context(), "PUBLISH", "b", "")
				want(t, sub, redis.Received, "a:1")
				want(t, sub, redis.Received, "b")
				// Silence does not end the connection; the client pings the
				// server meanwhile.
				none(t, sub, 10*time.Second)
				if n := s.Calls("PING"); n < 8 || n > 10 {
					t.Errorf("%d pings in 10 s of silence", n)
				}
				c.Do(t.Context(), "PUBLISH", "a", "3")
				want(t, sub, redis.Received, "a:3")

				s.Drop()
				start := time.Now()
				if e := want(t, sub, redis.Gap, ""); e.Err == nil {
					t.Error("a gap without a reason")
				}
				want(t, sub, redis.Subscribed, "")
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("back after %v", took)
				}
				c.Ping(t.Context())
				c.Do(t.Context(), "PUBLISH", "a", "4")
				want(t, sub, redis.Received, "a:4")

				sub.Close()
				sub.Close()
				if _, err := sub.Next(t.Context()); err != redis.ErrClosed {
					t.Error(err)
				}
				if err := sub.Err(); err != redis.ErrClosed {
					t.Error(err)
				}
			})
		})
	}
}

func TestSubscriptionNoticesADeadConnection(t *testing.T) {
	var conns []*netsim.Conn
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.OnDial = func(_ int, client *netsim.Conn) { conns = append(conns, client) }
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		want(t, sub, redis.Subscribed, "")
		// No byte comes any more, and no end either.
		conns[0].StallAfter(conns[0].Received())
		start := time.Now()
		want(t, sub, redis.Gap, "")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("noticed after %v", took)
		}
		want(t, sub, redis.Subscribed, "")
		// It also stops in the middle of a message.
		conns[1].StallAfter(conns[1].Received() + 10)
		go c.Do(t.Context(), "PUBLISH", "a", strings.Repeat("x", 100))
		start = time.Now()
		want(t, sub, redis.Gap, "")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("noticed after %v", took)
		}
		want(t, sub, redis.Subscribed, "")
	})
}

func TestSubscriptionOutlastsAnOutage(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Stop()
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		// Never subscribed, so nothing can have been missed: no gap.
		none(t, sub, 10*time.Second)
		if n := s.Dials(); n < 10 || n > 30 {
			t.Errorf("%d dials in 10 s", n)
		}
		if err := sub.Err(); !errors.Is(err, fakes.ErrRefused) {
			t.Error(err)
		}
		s.Start()
		start := time.Now()
		want(t, sub, redis.Subscribed, "")
		if took := time.Since(start); took > time.Second {
			t.Errorf("subscribed after %v", took)
		}
	})
}

func TestSubscribedOnlyAfterTheLastAcknowledgement(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(ss.Out, ">3\r\n+subscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nearly\r\n"...)
			time.Sleep(time.Second) // in the bubble
			ss.Out = append(ss.Out, ">3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\nlate\r\n"...)
		})
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		start := time.Now()
		sub, err := c.Subscribe(t.Context(), "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		want(t, sub, redis.Subscribed, "")
		if time.Since(start) < time.Second {
			t.Errorf("subscribed after %v", time.Since(start))
		}
		want(t, sub, redis.Received, "a:late")
	})
}

func TestSubscriptionRefused(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM no access to channels") })
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		none(t, sub, 5*time.Second)
		var se *redis.Error
		if err := sub.Err(); !errors.As(err, &se) || se.Code != "NOPERM" {
			t.Error(err)
		}
		if _, err := c.Subscribe(t.Context()); err == nil {
			t.Error("no channels accepted")
		}
	})
}

func TestEventsThatAreNotTakenBecomeAGap(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		want(t, sub, redis.Subscribed, "")
		for i := range 1024 {
			s.Publish("a", fmt.Sprint(i))
		}
		synctest.Wait()
		want(t, sub, redis.Received, "a:0") // all of them fit
		s.Publish("a", "1024")
		s.Publish("a", "one too many")
		synctest.Wait()
		want(t, sub, redis.Gap, "")
		want(t, sub, redis.Subscribed, "")
		if err := sub.Err(); err != nil {
			t.Error(err)
		}
		s.Publish("a", "next")
		want(t, sub, redis.Received, "a:next")

		// Large payloads are bounded by their bytes.
		for range 17 {
			s.Publish("a", strings.Repeat("x", 1<<20))
		}
		synctest.Wait()
		want(t, sub, redis.Gap, "")
		want(t, sub, redis.Subscribed, "")
	})
}

func TestHostileMessagesEndTheConnectionOnly(t *testing.T) {
	for _, raw := range []string{
		">3\r\n$7\r\nmessage\r\n$1\r\na\r\n:1\r\n", ">2\r\n$7\r\nmessage\r\n$1\r\na\r\n", ">4\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n",
		"$-7\r\n", "*1000000000\r\n", "@\r\n", "-ERR gone\r\n",
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			first := true
			s.Handle("PING", func(ss *fakes.RedisSession, _ [][]byte) {
				if first {
					ss.Out = append(ss.Out, raw...)
				} else {
					ss.Status("PONG")
				}
				first = false
			})
			sub, err := c.Subscribe(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			want(t, sub, redis.Subscribed, "")
			e := want(t, sub, redis.Gap, "")
			var se *redis.Error
			if !errors.Is(e.Err, redis.ErrProtocol) && !errors.As(e.Err, &se) {
				t.Errorf("%q: %v", raw, e.Err)
			}
			want(t, sub, redis.Subscribed, "")
		})
	}
	// Other replies are ignored.
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("PING", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(ss.Out, ">2\r\n$10\r\ninvalidate\r\n*0\r\n:1\r\n"...) // a push, and some answer
		})
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		want(t, sub, redis.Subscribed, "")
		none(t, sub, 10*time.Second)
	})
}

func TestSubscriptionEndsWithItsContextOrClient(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		byContext, err := c.Subscribe(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		byClient, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		want(t, byContext, redis.Subscribed, "")
		want(t, byClient, redis.Subscribed, "")
		cancel()
		if _, err := byContext.Next(t.Context()); err != redis.ErrClosed {
			t.Error(err)
		}
		none(t, byClient, time.Second)
		c.Close()
		if _, err := byClient.Next(t.Context()); err != redis.ErrClosed {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.Open(); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}

func TestSubscriptionCutAnywhereComesBack(t *testing.T) {
	cut := 0
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.OnDial = func(n int, client *netsim.Conn) {
			if n%2 == 0 {
				client.CutAfter(cut)
			}
		}
	}
	for cut = range 200 {
		fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			sub, err := c.Subscribe(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			subscribed := false
			for i := range 40 {
				time.Sleep(100 * time.Millisecond)
				s.Publish("a", fmt.Sprint(i))
			}
			synctest.Wait()
			// Messages follow each other without a hole unless there was a gap.
			last := -1
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				e, err := sub.Next(ctx)
				cancel()
				if err != nil {
					break
				}
				switch e.Kind {
				case redis.Subscribed:
					if subscribed {
						t.Errorf("cut at %d: subscribed twice", cut)
					}
					subscribed, last = true, -1
				case redis.Gap:
					if !subscribed {
						t.Errorf("cut at %d: gap of a gap", cut)
					}
					subscribed = false
				case redis.Received:
					var n int
					fmt.Sscan(string(e.Payload), &n)
					if !subscribed || last >= 0 && n != last+1 {
						t.Errorf("cut at %d: %d follows %d, subscribed %v", cut, n, last, subscribed)
					}
					last = n
				}
			}
			if last != 39 {
				t.Errorf("cut at %d: the last message is %d", cut, last)
			}
		})
	}
}

// TestEventsThatWaitAreBoundedByAllTheyHold: names of channels count, and so do
// attributes of messages.
func TestEventsThatWaitAreBoundedByAllTheyHold(t *testing.T) {
	long := fmt.Sprintf("$%d\r\n%s\r\n", 3<<20, strings.Repeat("x", 3<<20))
	for name, message := range map[string]string{
		"channel":            ">3\r\n$7\r\nmessage\r\n" + long + "$1\r\n1\r\n",
		"pattern":            ">4\r\n$8\r\npmessage\r\n" + long + "$1\r\na\r\n$1\r\n1\r\n",
		"attribute":          "|1\r\n+a\r\n" + long + ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n",
		"attribute in front": ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n|1\r\n+a\r\n" + long + "$1\r\n1\r\n",
	} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, _ [][]byte) {
				ss.Out = append(ss.Out, ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"...)
				for range 16 {
					ss.Out = append(ss.Out, message...)
				}
			})
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			sub, err := c.Subscribe(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			s.Drop()
			synctest.Wait()
			runtime.GC()
			runtime.ReadMemStats(&after)
			// The model server itself holds the messages that it has sent.
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 40<<20 {
				t.Errorf("%s: %d MiB are held", name, grown>>20)
			}
			sub.Close()
		})
	}
}

// TestSubscriptionOutlivesARefusedPing: a user that may subscribe may have no right
// to PING, and any answer proves that the connection works.
func TestSubscriptionOutlivesARefusedPing(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("PING", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error("NOPERM this user has no permissions to run the 'ping' command")
		})
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		want(t, sub, redis.Subscribed, "")
		none(t, sub, 10*time.Second)
		c.Do(t.Context(), "PUBLISH", "a", "1")
		want(t, sub, redis.Received, "a:1")
		if err := sub.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestMessageMayTakeLongAsLongAsItsBytesCome: it is large, and the connection slow. A message that stops half-way is a gap.
func TestMessageMayTakeLongAsLongAsItsBytesCome(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		sub, err := c.Subscribe(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		next := func(want redis.EventKind) redis.Event {
			t.Helper()
			e, err := sub.Next(t.Context())
			if err != nil || e.Kind != want {
				t.Fatalf("%+v, %v; want %d", e, err, want)
			}
			return e
		}
		next(redis.Subscribed)
		say := func(parts int) {
			s.Say(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$100\r\n")
			for range parts {
				time.Sleep(700 * time.Millisecond) // in the bubble
				s.Say("0123456789")
			}
		}
		say(10)
		s.Say("\r\n")
		if e := next(redis.Received); len(e.Payload) != 100 {
			t.Errorf("%q", e.Payload)
		}
		begun := time.Now()
		say(3)
		next(redis.Gap)
		if took := time.Since(begun); took < 2100*time.Millisecond || took > 5*time.Second {
			t.Errorf("a gap %v after the begin of a message that stops half-way", took)
		}
		next(redis.Subscribed)
	})
}
