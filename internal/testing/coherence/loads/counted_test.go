package loads_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// results are the numbers of operations on L2 by operation and result.
func results(st strata.Stats) map[string]uint64 {
	n := map[string]uint64{}
	for _, o := range st.Operations {
		n[o.Operation+" "+o.Result] = o.Latency.Count()
	}
	return n
}

func TestTimeOutsOfL2AreApartFromErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow, down atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Failing(lab.Stalling(s.Tier, "Get", time.Minute, &slow), "Drop", &down)
			o.Remote.BreakAfter = -1
		})
		slow.Store(true)
		lab.MustGet(t, c, "k", lab.PlainLoad)
		if _, err := c.GetMany(t.Context(), []string{"a", "b"}, nil); err != nil {
			t.Error(err)
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		c.Get(gone, "other") // its caller leaves before L2 has had its time
		slow.Store(false)
		down.Store(true)
		_ = c.Invalidate(t.Context(), "k")
		down.Store(false)
		time.Sleep(time.Minute) // in the bubble
		st := c.Stats()
		n := results(st)
		// The flight may ask once more after its caller has left.
		if late := st.L2.TimedOut; late < 2 || late > 3 || st.L2.Errors != late+n["drop error"] || n["get timeout"] != late || n["get error"] != 0 || n["drop error"] == 0 || n["drop timeout"] != 0 || n["get cancelled"] != 1 {
			t.Errorf("%d errors, %d in time-outs, %v", st.L2.Errors, st.L2.TimedOut, n)
		}
	})
}

func TestErrorsThatSayThatTimeIsOverAreTimeOuts(t *testing.T) {
	for err, want := range map[error]uint64{
		fmt.Errorf("read: %w", os.ErrDeadlineExceeded):      1, // of a client with a shorter time of its own
		fmt.Errorf("read: %w", context.DeadlineExceeded):    1,
		errors.New("connection reset"):                      0,
		fmt.Errorf("%w: out of memory", remote.ErrRefused):  0,
		fmt.Errorf("node a: %w", errors.New("i/o timeout")): 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
				o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
					if op == "Get" {
						return 0, err
					}
					return 0, nil
				})
			})
			c.Get(t.Context(), "k")
			if st := c.Stats(); st.L2.TimedOut != want || st.L2.Errors != 1 || results(st)["get timeout"] != want || results(st)["get error"] != 1-want {
				t.Errorf("%v: %d errors, %d in time-outs, %v", err, st.L2.Errors, st.L2.TimedOut, results(st))
			}
		})
	}
}

// TestSilenceOfAServerIsATimeOut has real clients and servers that take requests and never answer.
func TestSilenceOfAServerIsATimeOut(t *testing.T) {
	greetings := []string{"HELLO", "CLIENT", "SUBSCRIBE", "MULTI", "PUBLISH", "EXEC", "PING"}
	for _, name := range []string{"redis", "memcached"} {
		synctest.Test(t, func(t *testing.T) {
			var tier remote.Tier
			var close func() error
			switch name {
			case "redis":
				s := fakes.NewRedis()
				defer s.Close()
				s.SetGate(func(_ *fakes.RedisSession, name string, _ [][]byte) bool { return !slices.Contains(greetings, name) })
				client, err := redis.New(redis.Options{DialContext: s.Dial})
				lab.Must(t, err)
				tier, close = redis.NewTier(client), client.Close
			default:
				s := fakes.NewMemcached()
				defer s.Close()
				s.SetGate(func(_ *fakes.MemcachedSession, c *meta.Command) bool { return len(c.Key) > 0 })
				client, err := memcached.New(memcached.Options{Servers: []string{"localhost:11211"}, DialContext: s.Dial})
				lab.Must(t, err)
				tier, close = memcached.NewTier(client), client.Close
			}
			defer close()
			c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Remote.Tier = tier })
			defer c.Close(t.Context())
			if _, ok := c.Get(t.Context(), "k"); ok {
				t.Errorf("%s: a value came", name)
			}
			lab.MustGet(t, c, "other", lab.PlainLoad)
			if st := c.Stats(); st.L2.TimedOut != 2 || st.L2.Errors != 2 || results(st)["get timeout"] != 2 {
				t.Errorf("%s: %d errors, %d in time-outs, %v; want 2", name, st.L2.Errors, st.L2.TimedOut, results(st))
			}
		})
	}
}

func TestAnswersOfNegativeEntriesAreApartFromStaleOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.NotFoundTTL, o.ErrorTTL, o.Stale.WhileRevalidate = time.Minute, 10*time.Second, 10*time.Second
		})
		counted := func(when string, negative, stale uint64) {
			t.Helper()
			synctest.Wait()
			st := c.Stats()
			if st.Negative != negative || st.Remembered != negative+stale || st.StaleRevalidating+st.StaleOnError+st.StaleAllowed < stale {
				t.Errorf("%s: %d negative of %d, want %d of %d", when, st.Negative, st.Remembered, negative, negative+stale)
			}
			if st.L1.Misses+st.Refreshes+st.Warmed != st.Flights+st.Joins+st.TurnedAway+st.Remembered {
				t.Errorf("%s: the sum does not hold: %+v", when, st)
			}
		}
		absent := func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }
		c.GetOrLoad(t.Context(), "none", absent)
		counted("a load", 0, 0)
		c.GetOrLoad(t.Context(), "none", absent)
		c.Get(t.Context(), "none")
		c.GetMany(t.Context(), []string{"none", "k"}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{"k": 1}, nil
		})
		c.GetMany(t.Context(), []string{"none"}, nil)
		counted("four reads", 4, 0)
		lab.Must(t, c.SetNotFound(t.Context(), "written"))
		c.Get(t.Context(), "written")
		counted("a write", 5, 0)
		time.Sleep(65 * time.Second) // in the bubble
		lab.MustGet(t, c, "k", lab.PlainLoad)
		counted("a stale value", 5, 1)
		lab.Must(t, c.Expire(t.Context(), "k"))
		fails := func(context.Context, string) (int64, error) { return 0, errors.New("down") }
		lab.MustGet(t, c, "k", fails)
		lab.MustGet(t, c, "k", fails)
		counted("an error", 5, 2)
		c.GetOrLoad(t.Context(), "none", absent)
		counted("the end of its life", 5, 2)
		lab.Must(t, c.Tune(strata.Tuning{Off: new(true)}))
		c.Get(t.Context(), "none")
		counted("turned off", 5, 2)
	})
}

// TestNegativeEntryOfL2IsAHitInL2 has an instance that reads a key which another one has found
// absent.
func TestNegativeEntryOfL2IsAHitInL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Minute })
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Minute })
		absent := func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }
		a.GetOrLoad(t.Context(), "none", absent)
		for range 3 {
			b.GetOrLoad(t.Context(), "none", absent)
		}
		if st := b.Stats(); st.Negative != 2 || st.L2.Hits != 1 || st.Loads.Total() != 0 {
			t.Errorf("%d negative, %d hits of L2, %d loads; want 2, 1, none", st.Negative, st.L2.Hits, st.Loads.Total())
		}
	})
}

// leases are the numbers of c about leases.
func leases(c *strata.Cache[string, int64]) [2]uint64 {
	st := c.Stats()
	return [2]uint64{st.LeaseWaits, st.LeaseWins}
}

func TestWaitForAnotherInstanceIsCountedOnceWhenItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		other strata.Loader[string, int64]
		call  func(t *testing.T, c *strata.Cache[string, int64])
		want  [2]uint64
	}{
		"its value": {
			other: (&lab.Origin{Takes: 3 * time.Second}).Load,
			want:  [2]uint64{1, 1},
		},
		"not found": {
			other: func(context.Context, string) (int64, error) {
				time.Sleep(3 * time.Second)
				return 0, strata.ErrNotFound
			},
			call: func(t *testing.T, c *strata.Cache[string, int64]) {
				if _, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad); !errors.Is(err, strata.ErrNotFound) {
					t.Error(err)
				}
			},
			want: [2]uint64{1, 1},
		},
		"its failure": {
			other: func(context.Context, string) (int64, error) {
				time.Sleep(3 * time.Second)
				return 0, errors.New("down")
			},
			want: [2]uint64{1, 0},
		},
		"a batch": {
			other: (&lab.Origin{Takes: 3 * time.Second}).Load,
			call: func(t *testing.T, c *strata.Cache[string, int64]) {
				_, err := c.GetMany(t.Context(), []string{"a", "k", "b"}, func(_ context.Context, keys []string) (map[string]int64, error) {
					if slices.Contains(keys, "k") {
						t.Error("k is loaded twice")
					}
					return map[string]int64{"a": 1, "b": 1}, nil
				})
				lab.Must(t, err)
			},
			want: [2]uint64{1, 1},
		},
		"no wait": {
			other: (&lab.Origin{}).Load,
			want:  [2]uint64{0, 0},
		},
		"until Close": {
			other: (&lab.Origin{Takes: 8 * time.Second}).Load,
			call: func(t *testing.T, c *strata.Cache[string, int64]) {
				time.AfterFunc(2*time.Second, func() { c.Close(context.Background()) })
				if _, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad); !errors.Is(err, strata.ErrClosed) {
					t.Error(err)
				}
			},
			want: [2]uint64{1, 0},
		},
		"a reload": {
			other: (&lab.Origin{Takes: 3 * time.Second}).Load,
			call: func(t *testing.T, c *strata.Cache[string, int64]) {
				if _, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad, strata.SkipRead()); err != nil {
					t.Error(err)
				}
			},
			want: [2]uint64{1, 0},
		},
	} {
		for _, announced := range []bool{true, false} { // ends of leases; else it asks again and again
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := lab.NewShared()
					quiet := func(o *strata.Options[string, int64]) {
						if o.NotFoundTTL = time.Minute; !announced {
							o.Remote.Bus = nil
						}
					}
					first, second := lab.Instance(t, s, quiet), lab.Instance(t, s, quiet)
					go first.GetOrLoad(t.Context(), "k", c.other)
					synctest.Wait()
					var calls sync.WaitGroup
					calls.Go(func() {
						if c.call == nil {
							lab.MustGet(t, second, "k", lab.PlainLoad)
							return
						}
						c.call(t, second)
					})
					time.Sleep(time.Second) // in the bubble
					synctest.Wait()
					if n := leases(second); n != [2]uint64{} {
						t.Errorf("%v before the wait has ended", n)
					}
					calls.Wait()
					synctest.Wait() // the flight without a caller has ended
					if n := leases(second); n != c.want {
						t.Errorf("waits and wins %v, want %v", n, c.want)
					}
					if n := leases(first); n != [2]uint64{} {
						t.Errorf("the one that loads has waited: %v", n)
					}
				})
			})
		}
	}
}

func TestMessagesWithoutAnEffectAreUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Key = func(k string) string { return k }
			o.Remote.ParseKey = func(name string) (string, error) {
				if strings.HasPrefix(name, "bad") {
					return "", errors.New("no key")
				}
				return name, nil
			}
		})
		counted := func(when string, want uint64, ms ...remote.Message) {
			t.Helper()
			for i := range ms {
				ms[i].Name, ms[i].From = "test", 7
			}
			lab.Must(t, s.Bus.Publish(t.Context(), ms))
			synctest.Wait()
			if n := c.Stats().Unreadable; n != want {
				t.Errorf("%s: %d unreadable, want %d", when, n, want)
			}
		}
		counted("no message", 0)
		counted("good ones", 0, remote.Message{Kind: remote.Dropped, Key: "k"}, remote.Message{Kind: remote.TagDropped, Key: "t"}, remote.Message{Kind: remote.AllExpired}, remote.Message{Kind: remote.Beat, Key: "x"})
		counted("kinds", 2, remote.Message{}, remote.Message{Kind: remote.Answered + 1, Key: "k"})
		counted("a key", 3, remote.Message{Kind: remote.Expired, Key: "bad"})
		counted("a long key", 4, remote.Message{Kind: remote.Dropped, Key: strings.Repeat("k", 1<<20)})
		counted("a long tag", 5, remote.Message{Kind: remote.TagExpired, Key: strings.Repeat("k", 1<<20)})
		if st := c.Stats(); st.Heard != 6 {
			t.Errorf("%d drops are heard of, want 6: those of unknown kinds are none", st.Heard)
		}
		lab.MustGet(t, c, "k", lab.PlainLoad)
		counted("an unreadable one drops nothing", 6, remote.Message{Key: "k"})
		if _, ok := c.Get(t.Context(), "k"); !ok {
			t.Error("a message of no kind has dropped its key")
		}
	})
}

// TestReplacingAFreshValueIsNoWait has a value that L2 takes for fresh. It must become stale before
// L2 grants a lease for it.
func TestReplacingAFreshValueIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.WithoutRefresh(s.Tier) })
		tagged := strata.WithTags("tag")
		c.GetOrLoad(t.Context(), "k", lab.PlainLoad, tagged)
		lab.Must(t, c.ExpireTags(t.Context(), "tag"))
		c.GetOrLoad(t.Context(), "k", lab.PlainLoad, tagged)
		st := c.Stats()
		if n := results(st); st.LeaseWaits != 0 || n["drop ok"] != 1 || st.Loads.OK != 2 {
			t.Errorf("%d waits, %v, %d loads; want no wait, one drop, 2 loads", st.LeaseWaits, n, st.Loads.OK)
		}
	})
}
