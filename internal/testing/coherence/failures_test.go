package coherence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
)

// remembering makes a cache remember failures, for a second at first.
func remembering(o *strata.Options[string, int64]) { o.ErrorTTL = time.Second }

func TestFailureIsRememberedAndTheOriginLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache(t, remembering)
		s := &fallible{}
		s.fail(errDown)
		for range 80 { // in less than 4/5 of a second
			if v, err := c.GetOrLoad(t.Context(), "k", s.load); !errors.Is(err, errDown) {
				t.Fatalf("got %d, %v", v, err)
			}
			time.Sleep(9 * time.Millisecond)
		}
		st := c.Stats()
		if n := s.loads.Load(); n != 1 || st.Throttled != 79 || st.Loads.Errors != 1 {
			t.Errorf("%d loads, %d throttled; want 1, 79", n, st.Throttled)
		}
		mustGet(t, c, "other", (&origin{}).load)
		time.Sleep(time.Second)
		s.fail(nil)
		mustGet(t, c, "k", s.load)
	})
}

func TestConvoyOfCallersBehindAFailureLoadsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache(t, remembering)
		s := &fallible{origin: origin{takes: time.Second}}
		s.fail(errDown)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 15 * time.Millisecond)
				if _, err := c.GetOrLoad(t.Context(), "k", s.load); !errors.Is(err, errDown) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

func TestFailuresAreRememberedForASecondAndThenForTen(t *testing.T) {
	gaps := map[time.Duration]bool{}
	bubble(t, func(t *testing.T) {
		c := newCache(t, remembering)
		for i := range 10 {
			key := fmt.Sprint(i)
			var attempts []time.Time
			load := func(context.Context, string) (int64, error) {
				attempts = append(attempts, time.Now())
				return 0, errDown
			}
			for range 50 * 100 {
				if _, err := c.GetOrLoad(t.Context(), key, load); !errors.Is(err, errDown) {
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
	bubble(t, func(t *testing.T) {
		c := newCache(t, remembering, windows(-1, -1), func(o *strata.Options[string, int64]) { o.TTL = time.Second })
		s := &fallible{}
		s.fail(errDown)
		for range 4 {
			_, _ = c.GetOrLoad(t.Context(), "k", s.load)
			time.Sleep(11 * time.Second)
		}
		s.fail(nil)
		mustGet(t, c, "k", s.load)
		time.Sleep(time.Second)
		s.fail(errDown)
		_, _ = c.GetOrLoad(t.Context(), "k", s.load)
		time.Sleep(time.Second)
		s.fail(nil)
		mustGet(t, c, "k", s.load)
		if n := s.loads.Load(); n != 7 {
			t.Errorf("%d loads, want 7", n)
		}
	})
}

func TestFailureIsRememberedByThisInstanceAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		a, b := instance(t, s, remembering), instance(t, s, remembering)
		o := &fallible{}
		o.fail(errDown)
		if _, err := a.GetOrLoad(t.Context(), "k", o.load); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		if r := a.Explain(t.Context(), "k"); r.L1.Present || r.L2.Present {
			t.Errorf("a failure is in a tier: %+v", r)
		}
		o.fail(nil)
		o.value.Store(1)
		start := time.Now()
		if v := mustGet(t, b, "k", o.load); v != 1 || time.Since(start) > 100*time.Millisecond {
			t.Errorf("the other instance got %d after %v", v, time.Since(start))
		}
		// A load by another instance is no attempt.
		if v := mustGet(t, a, "k", o.load); v != 1 || o.loads.Load() != 2 {
			t.Errorf("got %d after %d loads, want 1 after 2", v, o.loads.Load())
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
			bubble(t, func(t *testing.T) {
				c := newCache(t, remembering, limits(strata.Limits{CancelAbandoned: true}))
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = c.GetOrLoad(ctx, "k", test.load(ctx)) })
				synctest.Wait()
				if test.follower {
					wg.Go(func() { _, _ = c.GetOrLoad(t.Context(), "k", (&origin{}).load) })
				}
				synctest.Wait()
				cancel()
				wg.Wait()
				synctest.Wait()
				mustGet(t, c, "k", (&origin{}).load)
			})
		})
	}
}

func TestLoadThatTakesTooLongIsAFailureOfTheOrigin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache(t, remembering, func(o *strata.Options[string, int64]) { o.Limits.HardTimeout = time.Second })
		o := &origin{takes: time.Hour}
		start := time.Now()
		for range 5 {
			if _, err := c.GetOrLoad(t.Context(), "k", o.load); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(start); took != time.Second || o.loads.Load() != 1 {
			t.Errorf("%d loads in %v, want 1 in 1s", o.loads.Load(), took)
		}
	})
}

func TestPanicsAndExitsAreNotRemembered(t *testing.T) {
	for name, end := range map[string]func(){
		"panic": func() { panic("loader") }, "panic with an error": func() { panic(errDown) }, "exit": exitGoroutine,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCache(t, remembering)
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
	bubble(t, func(t *testing.T) {
		c := newCache[string, int64](t)
		s := &fallible{}
		s.fail(errDown)
		for range 3 {
			_, _ = c.GetOrLoad(t.Context(), "k", s.load)
		}
		if n := s.loads.Load(); n != 3 {
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
			bubble(t, func(t *testing.T) {
				s := newShared()
				for _, c := range []*strata.Cache[string, int64]{newCache(t, remembering), instance(t, s, remembering)} {
					o := &fallible{}
					o.fail(errDown)
					_, _ = c.GetOrLoad(t.Context(), "k", o.load)
					o.fail(nil)
					o.value.Store(5)
					if err := end(c, t.Context()); err != nil {
						t.Fatal(err)
					}
					gets(t, c, o.load, 5)
				}
			})
		})
	}
}

func TestErrorNamesTheCacheAndWrapsItsCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &fallible{}
		s.fail(errDown)
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
			c := newCache(t, remembering, func(o *strata.Options[string, int64]) { o.Name, o.ShowKeys = tt.name, tt.show })
			for range 2 { // loaded, and remembered
				_, err := c.GetOrLoad(t.Context(), "alice@example.org", s.load)
				if !errors.Is(err, errDown) || err.Error() != tt.want {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
		}
	})
}

func TestErrorsOfThisPackageComeAsTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCache(t, remembering, func(o *strata.Options[string, int64]) { o.ShowKeys = true })
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
		if _, err = c.GetOrLoad(ctx, "slow", (&origin{takes: time.Minute}).load); err != context.DeadlineExceeded {
			t.Errorf("got %v, want the caller's own error", err)
		}
	})
}
