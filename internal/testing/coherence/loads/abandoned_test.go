package loads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// tiers runs a test, in a bubble, on an instance without L2, on one with L2, and on one
// with a silent L2.
func tiers(t *testing.T, test func(t *testing.T, c *strata.Cache[string, int64]), change ...func(*strata.Options[string, int64])) {
	t.Run("without L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, lab.NewCache(t, change...)) })
	})
	t.Run("with L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, lab.Instance(t, lab.NewShared(), change...)) })
	})
	t.Run("with a dead L2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, p := lab.NewShared(), &lab.Patient{}
			c := lab.IllInstance(t, s, p, change...)
			p.Hangs.Store(true)
			test(t, c)
		})
	})
}

// ask is a way to ask for one key.
type ask func(context.Context, *strata.Cache[string, int64], string, strata.Loader[string, int64]) (int64, error)

// asks are the ways to ask for one key, by their names.
func asks() map[string]ask {
	return map[string]ask{
		"GetOrLoad": func(ctx context.Context, c *strata.Cache[string, int64], key string, load strata.Loader[string, int64]) (int64, error) {
			return c.GetOrLoad(ctx, key, load)
		},
		"GetMany": func(ctx context.Context, c *strata.Cache[string, int64], key string, load strata.Loader[string, int64]) (int64, error) {
			found, err := c.GetMany(ctx, []string{key}, lab.EachOf(load))
			return found[key], err
		},
	}
}

func TestImpatientCallersOfASlowOriginFillTheCache(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
				o := &lab.Origin{Takes: 150 * time.Millisecond}
				o.Value.Store(7)
				got := 0
				for range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					if v, err := ask(ctx, c, "k", o.Load); err == nil && v == 7 {
						got++
					}
					cancel()
				}
				if n := o.Loads.Load(); n != 1 || got < 16 {
					t.Errorf("%d loads, and %d of 20 calls have got the value; want 1, and at least 16", n, got)
				}
				if v, ok := c.Get(t.Context(), "k"); v != 7 || !ok {
					t.Errorf("Get: %d, %v; want 7", v, ok)
				}
			})
		})
	}
}

func TestAbandonedLoadIsFencedAsAnyOther(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
				o := &lab.Origin{Takes: time.Second}
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				_, _ = ask(ctx, c, "k", o.Load)
				_ = c.Invalidate(t.Context(), "k")
				time.Sleep(time.Minute / 2) // in a bubble
				if v, ok := c.Get(t.Context(), "k"); ok {
					t.Errorf("%d is there, loaded before the key was invalidated", v)
				}
			})
		})
	}
}

func TestAbandonedLoadIsJoinedWithinHardTimeoutAndNeverAfter(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
				end := make(chan struct{})
				defer close(end)
				hung := func(context.Context, string) (int64, error) { <-end; return 1, nil }
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := ask(ctx, c, "k", hung); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the first caller got %v", err)
				}
				time.Sleep(2 * time.Second) // in a bubble
				if _, err := ask(t.Context(), c, "k", lab.Never(t)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("who joined got %v, want the load's timeout", err)
				}
				// A dead L2 adds its own timeouts before the load begins.
				if took := time.Since(start); took < 10*time.Second || took > 10*time.Second+500*time.Millisecond {
					t.Errorf("after %v, want the load's 10s", took)
				}
				if v, err := ask(t.Context(), c, "k", (&lab.Origin{}).Load); v != 0 || err != nil {
					t.Errorf("after it: %d, %v; want a load of its own", v, err)
				}
			}, limits(strata.Limits{HardTimeout: 10 * time.Second}))
		})
	}
}

func TestCancelAbandonedCancelsLoadsWithoutCallers(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, limits(strata.Limits{CancelAbandoned: true}))
				ended := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, _ = ask(ctx, c, "k", func(ctx context.Context, _ string) (int64, error) {
					<-ctx.Done()
					ended <- ctx.Err()
					return 0, ctx.Err()
				})
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("the Loader's context ended with %v", err)
				}
				if v, err := ask(t.Context(), c, "k", (&lab.Origin{}).Load); v != 0 || err != nil {
					t.Errorf("the next caller got %d, %v; want a load of its own", v, err)
				}
			})
		})
	}
}

func TestCancelAbandonedSparesALoadWithALease(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance(t, s, limits(strata.Limits{CancelAbandoned: true})), lab.Instance[string, int64](t, s)
				o := &lab.Origin{Takes: 2 * time.Second}
				var wg sync.WaitGroup
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, _ = ask(ctx, a, "k", o.Load)
				})
				synctest.Wait()
				lab.MustGet(t, b, "k", lab.Never(t))
				wg.Wait()
			})
		})
	}
}

func TestQueuedLoadsWithWaitingCallersGoBeforeAbandonedOnes(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, limits(strata.Limits{MaxLoads: 1}))
				var mu sync.Mutex
				var order []string
				load := func(_ context.Context, key string) (int64, error) {
					mu.Lock()
					order = append(order, key)
					mu.Unlock()
					time.Sleep(10 * time.Second)
					return 1, nil
				}
				var wg sync.WaitGroup
				call := func(key string, patience time.Duration) {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						_, _ = ask(ctx, c, key, load)
					})
					synctest.Wait()
				}
				call("running", time.Minute)
				call("abandoned", time.Second)
				call("abandoned and joined", time.Second)
				call("waited for", time.Minute)
				time.Sleep(5 * time.Second)
				call("abandoned and joined", time.Minute)
				wg.Wait()
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if got := fmt.Sprintf("%q", order); got != `["running" "waited for" "abandoned and joined" "abandoned"]` {
					t.Errorf("loaded in the order %s", got)
				}
			})
		})
	}
}

func TestTimeoutOfACallerIsNoFailureOfTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = c.GetOrLoad(ctx, "k", func(context.Context, string) (int64, error) {
			<-ctx.Done() // a Loader that uses its caller's context
			time.Sleep(time.Millisecond)
			return 0, fmt.Errorf("query: %w", ctx.Err())
		})
		time.Sleep(2 * time.Millisecond)
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
	})
}

// stubborn is a Loader that looks at no context: it returns v when it is let go.
type stubborn struct {
	v     int64
	end   chan struct{}
	loads atomic.Int64
}

func newStubborn(v int64) *stubborn { return &stubborn{v: v, end: make(chan struct{})} }

func (s *stubborn) load(ctx context.Context, _ string) (int64, error) {
	s.loads.Add(1)
	<-s.end
	strata.Loading(ctx).SetTTL(time.Hour) // too late, and never read
	strata.Loading(ctx).SetTags("late")
	return s.v, nil
}

// noticing notes the loads that a hook is told of.
func noticing(told *atomic.Int64) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) {
		o.Hooks = &strata.Hooks{Load: func(e strata.Event) {
			if e.Outcome == strata.LoadError && errors.Is(e.Err, context.DeadlineExceeded) {
				told.Add(1)
			}
		}}
	}
}

func TestHardTimeoutFreesCallersOfALoaderThatIgnoresItsContext(t *testing.T) {
	for name, ask := range asks() {
		for _, stale := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stale %v", name, stale), func(t *testing.T) {
				var told atomic.Int64
				tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
					told.Store(0)
					s := newStubborn(5)
					defer close(s.end)
					if stale {
						_, _ = ask(t.Context(), c, "k", func(context.Context, string) (int64, error) { return 3, nil })
						time.Sleep(2 * time.Minute) // in a bubble
					}
					start := time.Now()
					var wg sync.WaitGroup
					for range 3 {
						wg.Go(func() {
							v, err := ask(t.Context(), c, "k", s.load)
							if stale && (v != 3 || err != nil) {
								t.Errorf("got %d, %v; want the stale value", v, err)
							}
							if !stale && !errors.Is(err, context.DeadlineExceeded) {
								t.Errorf("got %d, %v; want a timeout", v, err)
							}
							// A dead L2 adds its own before the load begins.
							if took := time.Since(start); took < 10*time.Second || took > 10*time.Second+200*time.Millisecond {
								t.Errorf("after %v, want 10s", took)
							}
						})
					}
					wg.Wait()
					if n := told.Load(); n != 1 {
						t.Errorf("the hook was told of %d loads that took too long, want 1", n)
					}
				}, limits(strata.Limits{HardTimeout: 10 * time.Second}), noticing(&told))
			})
		}
	}
}

func TestResultAfterHardTimeoutReachesNoCallerAndNoTier(t *testing.T) {
	for name, ask := range asks() {
		for what, after := range map[string]func(){"returns": func() {}, "panics": func() { panic("late") }, "exits": lab.ExitGoroutine} {
			t.Run(name+" "+what, func(t *testing.T) {
				tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
					s := newStubborn(5)
					if _, err := ask(t.Context(), c, "k", func(ctx context.Context, key string) (int64, error) {
						v, err := s.load(ctx, key)
						after()
						return v, err
					}); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
					close(s.end)
					synctest.Wait()
					if v, ok := c.Get(t.Context(), "k"); ok {
						t.Errorf("%d is there, though it came too late", v)
					}
					synctest.Wait()
					st := c.Stats()
					if st.Loads.Errors != 1 || st.Loads.Total() != 1 ||
						st.Flights != st.Rechecked+st.L2.Hits+st.Absent+st.Abandoned+st.Throttled+st.Loads.Total() {
						t.Errorf("the numbers do not add up: %+v", st)
					}
				}, limits(strata.Limits{HardTimeout: 10 * time.Second}))
			})
		}
	}
}

// TestResultAfterHardTimeoutReplacesNothingNewer also says that the next load
// does not wait for the one that hangs.
func TestResultAfterHardTimeoutReplacesNothingNewer(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
				s, o := newStubborn(5), &lab.Origin{}
				o.Value.Store(6)
				_, _ = ask(t.Context(), c, "k", s.load)
				if v, err := ask(t.Context(), c, "k", o.Load); v != 6 || err != nil {
					t.Errorf("the next caller got %d, %v; want 6", v, err)
				}
				close(s.end)
				synctest.Wait()
				if v, ok := c.Get(t.Context(), "k"); v != 6 || !ok {
					t.Errorf("afterwards %d, %v; want 6", v, ok)
				}
			}, limits(strata.Limits{HardTimeout: 10 * time.Second}))
		})
	}
}

func TestHardTimeoutGivesTheLeaseUp(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := lab.NewShared()
				hard := limits(strata.Limits{HardTimeout: 10 * time.Second})
				a, b := lab.Instance(t, shared, hard), lab.Instance(t, shared, hard)
				s, o := newStubborn(5), &lab.Origin{}
				o.Value.Store(6)
				go ask(t.Context(), a, "k", s.load)
				synctest.Wait()
				time.Sleep(5 * time.Second)
				if took := lab.GetTakes(t, b, o.Load, 6); took < 5*time.Second || took > 5*time.Second+time.Millisecond {
					t.Errorf("the other instance waited %v, want 5s", took)
				}
				close(s.end)
				synctest.Wait()
				for _, c := range []*strata.Cache[string, int64]{a, b} {
					if took := lab.GetTakes(t, c, lab.Never(t), 6); took != 0 {
						t.Errorf("waited %v for what L2 has", took)
					}
				}
			})
		})
	}
}

func TestHardTimeoutFreesASkipRead(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change, limits(strata.Limits{HardTimeout: 10 * time.Second, MaxLoads: 1}))
		s := newStubborn(5)
		start := time.Now()
		if v, err := c.GetOrLoad(ctx, "k", s.load, opts...); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
			t.Errorf("got %d, %v after %v; want a timeout after 10s", v, err, time.Since(start))
		}
		left, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		start = time.Now()
		if _, err := c.GetOrLoad(left, "j", s.load, opts...); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v; want the caller's own deadline, in the queue for the slot", err, time.Since(start))
		}
		if n := s.loads.Load(); n != 1 {
			t.Errorf("%d loads at once, want 1", n)
		}
		close(s.end)
		synctest.Wait()
		if v, ok := c.Get(ctx, "k"); ok {
			t.Errorf("%d is there, though it came too late", v)
		}
	})
}

func TestSkipReadReturnsAtItsOwnDeadline(t *testing.T) {
	skips(t, func(t *testing.T, change func(*strata.Options[string, int64]), ctx context.Context, opts ...strata.CallOption) {
		c := lab.NewCache(t, change)
		s := newStubborn(5)
		defer close(s.end)
		left, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		start := time.Now()
		if _, err := c.GetOrLoad(left, "k", s.load, opts...); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want the caller's own deadline after a second", err, time.Since(start))
		}
	})
}

func TestHungRefreshEndsAtHardTimeout(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, refreshAt(0.1), limits(strata.Limits{HardTimeout: 10 * time.Second}))
				s, o := newStubborn(5), &lab.Origin{}
				defer close(s.end)
				o.Value.Store(6)
				lab.Must(t, c.Set(t.Context(), "k", 1))
				time.Sleep(20 * time.Second)
				for range 12 {
					if v, err := ask(t.Context(), c, "k", s.load); v != 1 || err != nil {
						t.Errorf("got %d, %v", v, err)
					}
					time.Sleep(time.Second)
				}
				synctest.Wait()
				if n := s.loads.Load(); n != 2 {
					t.Errorf("%d refreshes, want the second to begin when the first had its 10s", n)
				}
				time.Sleep(10 * time.Second)
				_, _ = ask(t.Context(), c, "k", o.Load)
				synctest.Wait()
				if v, err := ask(t.Context(), c, "k", o.Load); v != 6 || err != nil {
					t.Errorf("got %d, %v; want what a later refresh has brought", v, err)
				}
			})
		})
	}
}

func TestHungLoaderKeepsItsSlotAndTheQueueEndsAtHardTimeout(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, limits(strata.Limits{HardTimeout: 10 * time.Second, MaxLoads: 1}))
				s := newStubborn(5)
				_, _ = ask(t.Context(), c, "hung", s.load)
				lab.Must(t, c.Set(t.Context(), "stale", 3))
				lab.Must(t, c.Expire(t.Context(), "stale"))
				for key, want := range map[string]int64{"queued": 0, "stale": 3} {
					start := time.Now()
					v, err := ask(t.Context(), c, key, lab.Never(t))
					if v != want || (err == nil) != (want != 0) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: got %d, %v", key, v, err)
					}
					if took := time.Since(start); took != 10*time.Second {
						t.Errorf("%s: waited %v for a slot, want 10s", key, took)
					}
				}
				synctest.Wait() // a flight counts its end after its callers have left
				st := c.Stats()
				if st.Flights != st.Rechecked+st.L2.Hits+st.Absent+st.Abandoned+st.Throttled+st.Loads.Total() {
					t.Errorf("the numbers do not add up: %+v", st)
				}
				close(s.end)
				synctest.Wait()
				if v, err := ask(t.Context(), c, "queued", (&lab.Origin{}).Load); v != 0 || err != nil {
					t.Errorf("with the slot free: %d, %v", v, err)
				}
			})
		})
	}
}

func TestCloseWaitsForALoaderThatWasTooLate(t *testing.T) {
	ways := asks()
	ways["SkipRead"] = func(ctx context.Context, c *strata.Cache[string, int64], key string, load strata.Loader[string, int64]) (int64, error) {
		return c.GetOrLoad(ctx, key, load, strata.SkipRead())
	}
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, limits(strata.Limits{HardTimeout: 10 * time.Second}))
				s := newStubborn(5)
				_, _ = ask(t.Context(), c, "k", s.load)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Close returned %v while the Loader ran", err)
				}
				time.AfterFunc(time.Second, func() { close(s.end) })
				start := time.Now()
				if err := c.Close(t.Context()); err != nil || time.Since(start) != time.Second {
					t.Errorf("Close returned %v after %v; want to have waited a second", err, time.Since(start))
				}
			})
		})
	}
}

func TestInstanceThatIsClosedWhileALoaderHangsLeavesNoLease(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := lab.NewShared()
				a, b := lab.Instance[string, int64](t, shared), lab.Instance[string, int64](t, shared)
				s := newStubborn(5)
				defer close(s.end)
				go ask(t.Context(), a, "k", s.load)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				_ = a.Close(ctx)
				if took := lab.GetTakes(t, b, (&lab.Origin{}).Load, 0); took != 0 {
					t.Errorf("the other instance waited %v", took)
				}
			})
		})
	}
}

// saysOwnKey reports whether err speaks of Loaders that wait for themselves.
func saysOwnKey(err error) bool { return err != nil && strings.Contains(err.Error(), "its own key") }

func TestLoaderThatAsksForItsOwnKeyWithAnotherContextEndsAtHardTimeout(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
				var load strata.Loader[string, int64]
				inner := make(chan error, 1)
				load = func(context.Context, string) (int64, error) {
					v, err := ask(context.Background(), c, "k", load)
					inner <- err
					return v, err
				}
				start := time.Now()
				_, err := ask(t.Context(), c, "k", load)
				for _, err := range []error{err, <-inner} {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want a timeout", err)
					}
					if !saysOwnKey(err) {
						t.Errorf("%v does not say what it looks like", err)
					}
				}
				if took := time.Since(start); took < 10*time.Second || took > 10*time.Second+500*time.Millisecond {
					t.Errorf("after %v, want 10s", took)
				}
			}, limits(strata.Limits{HardTimeout: 10 * time.Second}))
		})
	}
}

// TestPlainTimeoutDoesNotSpeakOfLoadersThatWaitForThemselves has callers with contexts
// that can end, as the contexts of requests do.
func TestPlainTimeoutDoesNotSpeakOfLoadersThatWaitForThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, limits(strata.Limits{HardTimeout: 10 * time.Second}))
		s := newStubborn(5)
		defer close(s.end)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := c.GetOrLoad(t.Context(), "k", s.load)
				if !errors.Is(err, context.DeadlineExceeded) || saysOwnKey(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
	})
}

func TestHooksThatExitDoNotHoldUpFreedCallers(t *testing.T) {
	for name, ask := range asks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, limits(strata.Limits{HardTimeout: 10 * time.Second}), func(o *strata.Options[string, int64]) {
					o.Hooks = &strata.Hooks{Load: func(strata.Event) { lab.ExitGoroutine() }}
				})
				s := newStubborn(5)
				defer close(s.end)
				if _, err := ask(t.Context(), c, "k", s.load); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				found, err := c.GetMany(t.Context(), []string{"a", "b", "c"}, lab.EachOf(s.load))
				var partial *strata.PartialError[string]
				if !errors.As(err, &partial) || len(partial.Failed) != 3 {
					t.Errorf("got %v, %v", found, err)
				}
			})
		})
	}
}

func TestCallersOfABatchThatHangsDoNotWaitForItsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := lab.NewShared()
		var slow atomic.Bool
		a := lab.Instance(t, shared, limits(strata.Limits{HardTimeout: 10 * time.Second}), func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(shared.Tier, func(op, _ string) (time.Duration, error) {
				if slow.Load() && op == "Release" {
					return time.Hour, nil
				}
				return 0, nil
			})
		})
		s := newStubborn(5)
		defer close(s.end)
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		slow.Store(true)
		start := time.Now()
		_, err := a.GetMany(t.Context(), keys, lab.EachOf(s.load))
		if took := time.Since(start); took != 10*time.Second || err == nil {
			t.Errorf("%v after %v: callers have waited for leases to be given back", err, took)
		}
	})
}
