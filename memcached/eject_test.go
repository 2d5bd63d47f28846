package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memcached"
)

// eject calls for a key of a server that does not answer until the server is ejected.
func eject(t *testing.T, q *squad, c *memcached.Client, server int) {
	t.Helper()
	key := q.keys(server, 1)[0]
	for range 1000 {
		if len(c.Ejected()) > 0 {
			return
		}
		if _, err := get(t.Context(), c, key); err == nil {
			t.Fatal("it answers")
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("not ejected")
}

// TestEjectedServerIsTriedAgainBesideTheCalls lets a server not answer for ten minutes,
// while there are 100 calls a second for it. It counts the connections and commands that
// the server gets, and looks how soon the client finds it when it answers again.
func TestEjectedServerIsTriedAgainBesideTheCalls(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
				key, m := q.keys(1, 1)[0], q.members[1]
				mustSet(t, c, key, "v")
				fault(m)
				eject(t, q, c, 1)
				if names := fmt.Sprint(c.Ejected()); names != "["+m.addr+"]" {
					t.Errorf("ejected: %s", names)
				}
				dials := m.Dials()
				for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if d := elapsed(func() { _, _ = get(t.Context(), c, key) }); d > 0 {
						t.Fatalf("a call waited %v", d)
					}
				}
				if n := m.Dials() - dials; n < 20 || n > 200 {
					t.Errorf("%d connections in ten minutes", n)
				}
				m.resume()
				m.Start()
				back := elapsed(func() {
					for v := ""; v != "v"; v, _ = get(t.Context(), c, key) {
						time.Sleep(10 * time.Millisecond)
					}
				})
				if back > 5*time.Second || len(c.Ejected()) > 0 {
					t.Errorf("back after %v, ejected: %v", back, c.Ejected())
				}
			})
		})
	}
}

// TestKeysOfAnEjectedServerMoveAndComeBack: the other keys stay where they are.
func TestKeysOfAnEjectedServerMoveAndComeBack(t *testing.T) {
	three(t, treating(memcached.DeadMoves), func(t *testing.T, q *squad, c *memcached.Client) {
		for server := range 3 {
			for _, key := range q.keys(server, 20) {
				mustSet(t, c, key, "before")
			}
		}
		q.members[1].Stop()
		eject(t, q, c, 1)
		for _, key := range q.keys(1, 20) {
			mustSet(t, c, key, "moved")
		}
		for server, want := range []string{"before", "moved", "before"} {
			items, err := c.GetMany(t.Context(), q.keys(server, 20))
			for key, item := range items {
				if string(item.Value) != want {
					t.Errorf("%s is %q", key, item.Value)
				}
			}
			if len(items) != 20 || err != nil {
				t.Errorf("server %d: %d items, %v", server, len(items), err)
			}
		}
		q.members[1].Start()
		if err := c.Ping(t.Context()); err != nil || len(c.Ejected()) > 0 {
			time.Sleep(time.Second) // the pool holds dials back
			if err = c.Ping(t.Context()); err != nil || len(c.Ejected()) > 0 {
				t.Fatalf("%v, ejected: %v", err, c.Ejected())
			}
		}
		for _, key := range q.keys(1, 20) {
			if v, err := get(t.Context(), c, key); v != "before" || err != nil {
				t.Errorf("%s is %q, %v", key, v, err)
			}
		}
	})
}

// TestFleetWithoutAServerThatAnswersFails: there is none to move to.
func TestFleetWithoutAServerThatAnswersFails(t *testing.T) {
	three(t, treating(memcached.DeadMoves), func(t *testing.T, q *squad, c *memcached.Client) {
		for _, m := range q.members {
			m.Stop()
		}
		for range 300 {
			for server := range 3 {
				var ce *memcached.ConnError
				if _, err := get(t.Context(), c, q.keys(server, 1)[0]); !errors.As(err, &ce) {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(c.Ejected()) != 3 {
			t.Errorf("ejected: %v", c.Ejected())
		}
	})
}

// TestOnlySilenceEjects: errors of the server and cancelled calls eject no server. A single
// server is never ejected, and no server is with the longest EjectAfter.
func TestOnlySilenceEjects(t *testing.T) {
	repeat := func(f func()) {
		for range 300 {
			f()
			time.Sleep(10 * time.Millisecond) // in a bubble
		}
	}
	never := func(o *memcached.Options) { o.Fleet.EjectAfter = math.MaxInt64 }
	three(t, never, func(t *testing.T, q *squad, c *memcached.Client) {
		q.members[1].Stop()
		repeat(func() { _, _ = get(t.Context(), c, q.keys(1, 1)[0]) })
		if names := c.Ejected(); names != nil {
			t.Errorf("with the longest EjectAfter: %v", names)
		}
	})
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		key := q.keys(1, 1)[0]
		mustSet(t, c, key, "no number")
		repeat(func() { _, _ = c.Increment(t.Context(), key, 1) })
		q.members[1].pause()
		repeat(func() {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			_, _ = get(ctx, c, key)
		})
		if names := c.Ejected(); names != nil {
			t.Errorf("after errors and cancelled calls: %v", names)
		}
	})
	three(t, nil, func(t *testing.T, q *squad, _ *memcached.Client) {
		c := q.alone(t, 1)
		q.members[1].Stop()
		repeat(func() { _, _ = get(t.Context(), c, "k") })
		if q.members[1].Start(); len(c.Ejected()) > 0 {
			t.Error("a single server is ejected")
		}
		time.Sleep(time.Second)
		mustSet(t, c, "k", "v")
	})
}

// TestShortDeadlinesEjectOnlyAServerThatAnswersNone: one answer in between is enough.
func TestShortDeadlinesEjectOnlyAServerThatAnswersNone(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		key := q.keys(1, 1)[0]
		mustSet(t, c, key, "v")
		for range 20 {
			q.members[1].pause()
			for range 9 {
				_, _ = get(kit.Within(t, 100*time.Millisecond), c, key)
			}
			q.members[1].resume()
			if _, err := get(t.Context(), c, key); err != nil {
				t.Fatal(err)
			}
		}
		if len(c.Ejected()) > 0 {
			t.Error("ejected")
		}
		q.members[1].pause()
		for range 13 {
			_, _ = get(kit.Within(t, 100*time.Millisecond), c, key)
		}
		if len(c.Ejected()) != 1 {
			t.Error("not ejected")
		}
	})
}

// TestCloseEndsTheTrialOfAnEjectedServer: the bubble waits for its goroutines.
func TestCloseEndsTheTrialOfAnEjectedServer(t *testing.T) {
	three(t, nil, func(t *testing.T, q *squad, c *memcached.Client) {
		key := q.keys(1, 1)[0]
		mustSet(t, c, key, "v")
		q.members[1].pause()
		eject(t, q, c, 1)
		time.Sleep(2 * time.Second)
		_, _ = get(t.Context(), c, key) // begins a trial
		synctest.Wait()
		if d := elapsed(func() { c.Close() }); d > 0 {
			t.Errorf("Close took %v", d)
		}
		if _, err := get(t.Context(), c, q.keys(0, 1)[0]); !errors.Is(err, memcached.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
