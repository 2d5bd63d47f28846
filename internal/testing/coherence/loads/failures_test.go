package loads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestFailureIsRememberedAndTheOriginLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering)
		s := &lab.Fallible{}
		s.Fail(lab.ErrDown)
		for range 80 { // in less than 4/5 of a second
			if v, err := c.GetOrLoad(t.Context(), "k", s.Load); !errors.Is(err, lab.ErrDown) {
				t.Fatalf("got %d, %v", v, err)
			}
			time.Sleep(9 * time.Millisecond)
		}
		st := c.Stats()
		if n := s.Loads.Load(); n != 1 || st.Throttled != 79 || st.Loads.Errors != 1 {
			t.Errorf("%d loads, %d throttled; want 1, 79", n, st.Throttled)
		}
		lab.MustGet(t, c, "other", (&lab.Origin{}).Load)
		time.Sleep(time.Second)
		s.Fail(nil)
		lab.MustGet(t, c, "k", s.Load)
	})
}

func TestConvoyOfCallersBehindAFailureLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering)
		s := &lab.Fallible{Origin: lab.Origin{Takes: time.Second}}
		s.Fail(lab.ErrDown)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 15 * time.Millisecond)
				if _, err := c.GetOrLoad(t.Context(), "k", s.Load); !errors.Is(err, lab.ErrDown) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.Loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

func TestFailuresAreRememberedForASecondAndThenForTen(t *testing.T) {
	gaps := map[time.Duration]bool{}
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering)
		for i := range 10 {
			key := fmt.Sprint(i)
			var attempts []time.Time
			load := func(context.Context, string) (int64, error) {
				attempts = append(attempts, time.Now())
				return 0, lab.ErrDown
			}
			for range 50 * 100 {
				if _, err := c.GetOrLoad(t.Context(), key, load); !errors.Is(err, lab.ErrDown) {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			checkBackoff(t, attempts, 10*time.Millisecond)
			gaps[attempts[len(attempts)-1].Sub(attempts[len(attempts)-2])] = true
		}
	})
	if len(gaps) < 5 {
		t.Errorf("last gaps of ten keys: %v; want them spread", gaps)
	}
}

func TestSuccessEndsTheRowOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering, lab.Windows(-1, -1), func(o *strata.Options[string, int64]) { o.TTL = time.Second })
		s := &lab.Fallible{}
		s.Fail(lab.ErrDown)
		for range 4 {
			_, _ = c.GetOrLoad(t.Context(), "k", s.Load)
			time.Sleep(11 * time.Second)
		}
		s.Fail(nil)
		lab.MustGet(t, c, "k", s.Load)
		time.Sleep(time.Second)
		s.Fail(lab.ErrDown)
		_, _ = c.GetOrLoad(t.Context(), "k", s.Load)
		time.Sleep(time.Second)
		s.Fail(nil)
		lab.MustGet(t, c, "k", s.Load)
		if n := s.Loads.Load(); n != 7 {
			t.Errorf("%d loads, want 7", n)
		}
	})
}

func TestFailureIsRememberedByThisInstanceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, lab.Remembering), lab.Instance(t, s, lab.Remembering)
		o := &lab.Fallible{}
		o.Fail(lab.ErrDown)
		if _, err := a.GetOrLoad(t.Context(), "k", o.Load); !errors.Is(err, lab.ErrDown) {
			t.Fatal(err)
		}
		if r := a.Explain(t.Context(), "k"); r.L1.Present || r.L2.Present {
			t.Errorf("a failure is in a tier: %+v", r)
		}
		o.Fail(nil)
		o.Value.Store(1)
		start := time.Now()
		if v := lab.MustGet(t, b, "k", o.Load); v != 1 || time.Since(start) > 100*time.Millisecond {
			t.Errorf("the other instance got %d after %v", v, time.Since(start))
		}
		// A load by another instance does not count as an attempt.
		if v := lab.MustGet(t, a, "k", o.Load); v != 1 || o.Loads.Load() != 2 {
			t.Errorf("got %d after %d loads, want 1 after 2", v, o.Loads.Load())
		}
	})
}

func TestCancellationIsNoFailureOfTheOrigin(t *testing.T) {
	for name, test := range map[string]struct {
		load     func(caller context.Context) strata.Loader[string, int64]
		follower bool
	}{
		"the loader returns the context's error": {load: func(context.Context) strata.Loader[string, int64] {
			return func(ctx context.Context, _ string) (int64, error) { <-ctx.Done(); return 0, ctx.Err() }
		}},
		"the loader returns its cause": {load: func(context.Context) strata.Loader[string, int64] {
			return func(ctx context.Context, _ string) (int64, error) { <-ctx.Done(); return 0, context.Cause(ctx) }
		}},
		"a driver has words of its own": {load: func(context.Context) strata.Loader[string, int64] {
			return func(ctx context.Context, _ string) (int64, error) {
				<-ctx.Done()
				return 0, errors.New("canceling statement due to user request")
			}
		}},
		"the loader uses its caller's context": {follower: true, load: func(caller context.Context) strata.Loader[string, int64] {
			return func(context.Context, string) (int64, error) {
				<-caller.Done()
				return 0, fmt.Errorf("query: %w", caller.Err())
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, lab.Remembering, limits(strata.Limits{CancelAbandoned: true}))
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = c.GetOrLoad(ctx, "k", test.load(ctx)) })
				synctest.Wait()
				if test.follower {
					wg.Go(func() { _, _ = c.GetOrLoad(t.Context(), "k", (&lab.Origin{}).Load) })
				}
				synctest.Wait()
				cancel()
				wg.Wait()
				synctest.Wait()
				lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			})
		})
	}
}

func TestLoadThatTakesTooLongIsAFailureOfTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering, func(o *strata.Options[string, int64]) { o.Limits.HardTimeout = time.Second })
		o := &lab.Origin{Takes: time.Hour}
		start := time.Now()
		for range 5 {
			if _, err := c.GetOrLoad(t.Context(), "k", o.Load); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(start); took != time.Second || o.Loads.Load() != 1 {
			t.Errorf("%d loads in %v, want 1 in 1s", o.Loads.Load(), took)
		}
	})
}

func TestPanicsAndExitsAreNotRemembered(t *testing.T) {
	for name, end := range map[string]func(){
		"panic": func() { panic("loader") }, "panic with an error": func() { panic(lab.ErrDown) }, "exit": lab.ExitGoroutine,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, lab.Remembering)
				loads := 0
				for range 3 {
					if _, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) {
						loads++
						end()
						return 0, nil
					}); err == nil {
						t.Error("no error")
					}
				}
				if loads != 3 {
					t.Errorf("%d loads, want 3", loads)
				}
			})
		})
	}
}

func TestFailuresAreNotRememberedIfTheyAreNotToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		s := &lab.Fallible{}
		s.Fail(lab.ErrDown)
		for range 3 {
			_, _ = c.GetOrLoad(t.Context(), "k", s.Load)
		}
		if n := s.Loads.Load(); n != 3 {
			t.Errorf("%d loads, want 3", n)
		}
	})
}

func TestWritesAndInvalidationsEndARememberedFailure(t *testing.T) {
	for name, end := range map[string]func(*strata.Cache[string, int64], context.Context) error{
		"Set": func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Set(ctx, "k", 5) },
		"SetMany": func(c *strata.Cache[string, int64], ctx context.Context) error {
			return c.SetMany(ctx, map[string]int64{"k": 5})
		},
		"Update": func(c *strata.Cache[string, int64], ctx context.Context) error {
			return c.Update(ctx, "k", func(context.Context) (int64, error) { return 5, nil })
		},
		"Invalidate":    func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Invalidate(ctx, "k") },
		"Expire":        func(c *strata.Cache[string, int64], ctx context.Context) error { return c.Expire(ctx, "k") },
		"InvalidateAll": func(c *strata.Cache[string, int64], ctx context.Context) error { return c.InvalidateAll(ctx) },
		"ExpireAll":     func(c *strata.Cache[string, int64], ctx context.Context) error { return c.ExpireAll(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				for _, c := range []*strata.Cache[string, int64]{lab.NewCache(t, lab.Remembering), lab.Instance(t, s, lab.Remembering)} {
					o := &lab.Fallible{}
					o.Fail(lab.ErrDown)
					_, _ = c.GetOrLoad(t.Context(), "k", o.Load)
					o.Fail(nil)
					o.Value.Store(5)
					if err := end(c, t.Context()); err != nil {
						t.Fatal(err)
					}
					lab.GetTakes(t, c, o.Load, 5)
				}
			})
		})
	}
}

func TestErrorNamesTheCacheAndWrapsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lab.Fallible{}
		s.Fail(lab.ErrDown)
		for _, tt := range []struct {
			name string
			show bool
			want string
		}{
			{"users", false, "strata: load users: origin is down"},
			{"users", true, `strata: load users "alice@example.org": origin is down`},
			{"", false, "strata: load: origin is down"},
			{"", true, `strata: load "alice@example.org": origin is down`},
		} {
			c := lab.NewCache(t, lab.Remembering, func(o *strata.Options[string, int64]) { o.Name, o.ShowKeys = tt.name, tt.show })
			for range 2 { // loaded, and remembered
				_, err := c.GetOrLoad(t.Context(), "alice@example.org", s.Load)
				if !errors.Is(err, lab.ErrDown) || err.Error() != tt.want {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
		}
	})
}

func TestErrorsOfThisPackageComeAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering, func(o *strata.Options[string, int64]) { o.ShowKeys = true })
		_, err := c.GetOrLoad(t.Context(), "k", nil)
		if err != strata.ErrNoLoader {
			t.Errorf("got %v, want ErrNoLoader itself", err)
		}
		_, err = c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { panic("at the disco") })
		var p *strata.LoadPanicError
		if !errors.As(err, &p) || err != error(p) || err.Error() != "strata: loader panicked: at the disco" {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = c.GetOrLoad(ctx, "slow", (&lab.Origin{Takes: time.Minute}).Load); err != context.DeadlineExceeded {
			t.Errorf("got %v, want the caller's own error", err)
		}
	})
}

// failsInASecond is a Loader.
func failsInASecond(context.Context, string) (int64, error) {
	time.Sleep(time.Second)
	return 0, lab.ErrDown
}

func TestNotFoundOutlivesAnEarlierLoadThatFails(t *testing.T) {
	for name, find := range map[string]func(t *testing.T, c *strata.Cache[string, int64]){
		"SetNotFound": func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.SetNotFound(t.Context(), "k")) },
		"later load": func(t *testing.T, c *strata.Cache[string, int64]) {
			lab.Must(t, c.Invalidate(t.Context(), "k"))
			findsNothing(t, c, (&missing{}).load)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, lab.Negatives, lab.Remembering)
				go c.GetOrLoad(t.Context(), "k", failsInASecond)
				synctest.Wait()
				find(t, c)
				time.Sleep(10 * time.Second)
				findsNothing(t, c, lab.PlainLoad)
			})
		})
	}
}

func TestValueSetDuringALoadThatFailsIsRefreshedInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.RefreshAt, o.TTL, o.ErrorTTL = 0.5, 10*time.Second, time.Minute
		})
		go c.GetOrLoad(t.Context(), "k", failsInASecond)
		synctest.Wait()
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(7 * time.Second)
		o := &lab.Origin{}
		lab.MustGet(t, c, "k", o.Load)
		synctest.Wait()
		if o.Loads.Load() != 1 {
			t.Error("no refresh, because a load from before the Set has failed")
		}
	})
}

func TestFailureOfALoadFromBeforeAnInvalidateIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Remembering)
		go c.GetOrLoad(t.Context(), "k", failsInASecond)
		synctest.Wait()
		lab.Must(t, c.Invalidate(t.Context(), "k"))
		time.Sleep(1100 * time.Millisecond)
		if v, err := c.GetOrLoad(t.Context(), "k", lab.Never(t)); !errors.Is(err, lab.ErrDown) {
			t.Errorf("%d, %v; want the failure", v, err)
		}
	})
}

func TestErrorOfASkipReadInABatchNamesTheCacheOnce(t *testing.T) {
	c := lab.NewCache[string, int64](t)
	_, err := c.GetMany(t.Context(), []string{"k"}, lab.EachOf(lab.DownLoad), strata.SkipRead())
	partial, ok := errors.AsType[*strata.PartialError[string]](err)
	if !ok || !errors.Is(partial.Failed["k"], lab.ErrDown) || strings.Count(partial.Failed["k"].Error(), "test") != 1 {
		t.Errorf("%v", err)
	}
}
