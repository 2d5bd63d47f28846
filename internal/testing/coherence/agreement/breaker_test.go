package agreement_test

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
	"github.com/strata-cache/strata/stratatest"
)

// misses asks for n keys that c does not have, and returns how long each took.
func misses(t *testing.T, c *strata.Cache[string, int64], name string, n int) (took []time.Duration) {
	t.Helper()
	o := &lab.Origin{}
	for i := range n {
		start := time.Now()
		lab.MustGet(t, c, fmt.Sprint(name, i), o.Load)
		took = append(took, time.Since(start))
	}
	return took
}

func TestDeadL2CostsFiveTimeoutsAndThenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p)
		p.Hangs.Store(true)
		took := misses(t, c, "a", 100)
		for i, d := range took {
			want := time.Duration(0)
			if i < lab.BreakAfter {
				want = lab.RemoteTimeout
			}
			if d != want {
				t.Errorf("miss %d took %v, want %v", i, d, want)
			}
		}
		if n := p.Asked.Load(); n != lab.BreakAfter || !c.Stats().BreakerOpen {
			t.Errorf("L2 was asked %d times, open %v; want 5, true", n, c.Stats().BreakerOpen)
		}
	})
}

func TestL2ThatIsLeftAloneIsTriedOnceAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p)
		p.Hangs.Store(true)
		misses(t, c, "a", 5)
		opened := time.Now()
		asked := p.Asked.Load()
		time.Sleep(lab.BreakFor - time.Second)
		misses(t, c, "b", 100)
		if n := p.Asked.Load(); n != asked {
			t.Errorf("asked %d times %v after it was left alone", n-asked, time.Since(opened))
		}
		for round := range 3 {
			time.Sleep(lab.BreakFor)
			o := &lab.Origin{}
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() { lab.MustGet(t, c, fmt.Sprint("round", round, i), o.Load) })
			}
			wg.Wait()
			if n := p.Asked.Load() - asked; n != int64(round+1) {
				t.Errorf("asked %d times by now, want %d", n, round+1)
			}
		}
	})
}

func TestL2ThatAnswersIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c, well := lab.IllInstance(t, s, p), lab.Instance[string, int64](t, s)
		p.Fails.Store(true)
		misses(t, c, "a", 10)
		p.Fails.Store(false)
		lab.Must(t, well.Set(t.Context(), "k", 7))
		time.Sleep(lab.BreakFor)
		misses(t, c, "probe", 1)
		if c.Stats().BreakerOpen {
			t.Error("open after L2 has answered")
		}
		if v, ok := c.Get(t.Context(), "k"); v != 7 || !ok {
			t.Errorf("got %d, %v from L2; want 7", v, ok)
		}
		misses(t, c, "stored", 1)
		if v, ok := well.Get(t.Context(), "stored0"); !ok {
			t.Errorf("the other instance got %d, %v: nothing is stored in L2", v, ok)
		}
	})
}

func TestHitsAskADeadL2Nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p)
		lab.Must(t, c.Set(t.Context(), "k", 1))
		p.Hangs.Store(true)
		asked := p.Asked.Load()
		for range 100 {
			if took := lab.GetTakes(t, c, lab.Never(t), 1); took != 0 {
				t.Errorf("a hit took %v", took)
			}
		}
		misses(t, c, "a", 5)
		for range 100 {
			if took := lab.GetTakes(t, c, lab.Never(t), 1); took != 0 {
				t.Errorf("a hit took %v", took)
			}
		}
		if n := p.Asked.Load() - asked; n != 5 {
			t.Errorf("asked %d times, want 5", n)
		}
	})
}

func TestSuccessBetweenFailuresKeepsTheBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p)
		for i := range 5 {
			p.Fails.Store(true)
			misses(t, c, fmt.Sprint("bad", i, "-"), 4)
			p.Fails.Store(false)
			misses(t, c, fmt.Sprint("good", i, "-"), 1)
		}
		if c.Stats().BreakerOpen {
			t.Error("open after four failures in a row")
		}
		p.Fails.Store(true)
		misses(t, c, "bad", 5)
		if !c.Stats().BreakerOpen {
			t.Error("closed after five failures in a row")
		}
	})
}

func TestBreakerFollowsItsOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		never := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) { o.Remote.BreakAfter = -1 })
		soon := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) {
			o.Remote.BreakAfter, o.Remote.BreakFor = 2, time.Minute
		})
		p.Fails.Store(true)
		misses(t, never, "a", 100)
		if n := p.Asked.Load(); n != 100 || never.Stats().BreakerOpen {
			t.Errorf("without a breaker L2 was asked %d times, want 100", n)
		}
		p.Asked.Store(0)
		misses(t, soon, "a", 100)
		time.Sleep(time.Minute - 1)
		misses(t, soon, "b", 1)
		if n := p.Asked.Load(); n != 2 {
			t.Errorf("asked %d times, want 2", n)
		}
		time.Sleep(1)
		misses(t, soon, "c", 1)
		if n := p.Asked.Load(); n != 3 {
			t.Errorf("asked %d times after a minute, want 3", n)
		}
	})
}

func TestWhileL2IsLeftAloneTheBusCountsAsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) { o.TTL = time.Hour })
		lab.Must(t, c.Set(t.Context(), "k", 1))
		degraded := func() bool {
			var info strata.Info
			if _, err := c.GetOrLoad(t.Context(), "k", (&lab.Origin{}).Load, strata.ReadInfo(&info)); err != nil {
				t.Error(err)
			}
			return info.Degraded
		}
		if degraded() || !c.Stats().Connected {
			t.Error("degraded while all is well")
		}
		p.Fails.Store(true)
		misses(t, c, "a", 5)
		if !degraded() || c.Stats().Connected {
			t.Error("not degraded while L2 is left alone")
		}
		if left := c.Explain(t.Context(), "a4").L1.Left; left > strata.UnconfirmedTTL {
			t.Errorf("what is loaded meanwhile lives for %v in L1, want %v at most", left, strata.UnconfirmedTTL)
		}
		p.Fails.Store(false)
		time.Sleep(lab.BreakFor)
		misses(t, c, "b", 1)
		synctest.Wait()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if degraded() || !c.Stats().Connected {
			t.Error("degraded after L2 has answered")
		}
	})
}

func TestDropsWhileL2IsLeftAloneReachItLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		c, well := lab.IllInstance(t, s, p), lab.Instance[string, int64](t, s)
		lab.Must(t, well.Set(t.Context(), "k", 1))
		synctest.Wait()
		p.Hangs.Store(true)
		misses(t, c, "a", 5)
		start := time.Now()
		var unconfirmed *strata.RemoteError
		if err := c.Invalidate(t.Context(), "k"); !errors.As(err, &unconfirmed) || unconfirmed.Pending != 1 {
			t.Errorf("got %v, want a *RemoteError with 1 pending", err)
		}
		if took := time.Since(start); took > lab.RemoteTimeout {
			t.Errorf("it took %v", took)
		}
		p.Hangs.Store(false)
		time.Sleep(lab.BreakFor + 5*time.Second)
		synctest.Wait()
		if v, ok := well.Get(t.Context(), "k"); ok || c.Stats().Pending != 0 {
			t.Errorf("got %d, %d drops pending", v, c.Stats().Pending)
		}
	})
}

func TestDropsOfEverythingDoNotWaitForAnL2ThatIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, drop := range map[string]func(*strata.Cache[string, int64]) error{
			"InvalidateAll":  func(c *strata.Cache[string, int64]) error { return c.InvalidateAll(t.Context()) },
			"ExpireAll":      func(c *strata.Cache[string, int64]) error { return c.ExpireAll(t.Context()) },
			"InvalidateTags": func(c *strata.Cache[string, int64]) error { return c.InvalidateTags(t.Context(), "t") },
		} {
			s, p := lab.NewShared(), &lab.Patient{}
			c, well := lab.IllInstance(t, s, p), lab.Instance[string, int64](t, s)
			lab.Must(t, well.Set(t.Context(), "k", 1, strata.WithTags("t")))
			synctest.Wait()
			p.Hangs.Store(true)
			misses(t, c, "a", 5)
			start := time.Now()
			var unconfirmed *strata.RemoteError
			if err := drop(c); !errors.As(err, &unconfirmed) || unconfirmed.Pending != 1 {
				t.Errorf("%s: got %v, want a *RemoteError with 1 pending", what, err)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("%s took %v", what, took)
			}
			time.Sleep(lab.BreakFor)
			_ = drop(c) // a probe that fails, after which L2 is left alone for the whole time again
			time.Sleep(lab.BreakFor - 1)
			start = time.Now()
			if err := drop(c); err == nil || time.Since(start) != 0 {
				t.Errorf("%s after a probe: %v after %v", what, err, time.Since(start))
			}
			time.Sleep(1)
			asked := p.Asked.Load()
			p.Hangs.Store(false)
			lab.Must(t, drop(c)) // the probe of the breaker
			if p.Asked.Load() == asked || c.Stats().BreakerOpen {
				t.Errorf("%s: L2 was asked %d times, and is left alone: %v", what, p.Asked.Load()-asked, c.Stats().BreakerOpen)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if v, ok := well.Get(t.Context(), "k"); ok || c.Stats().Pending != 0 {
				t.Errorf("%s: got %d, %d drops pending", what, v, c.Stats().Pending)
			}
		}
	})
}

func TestInstanceStartsWhileL2IsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		p.Hangs.Store(true)
		start := time.Now()
		c := lab.IllInstance(t, s, p)
		if took := time.Since(start); took != 0 {
			t.Errorf("New took %v", took)
		}
		var total time.Duration
		for _, d := range misses(t, c, "a", 100) {
			total += d
		}
		if want := lab.BreakAfter * lab.RemoteTimeout; total > want {
			t.Errorf("100 misses took %v, want %v at most", total, want)
		}
		p.Hangs.Store(false)
		time.Sleep(2 * lab.BreakFor)
		misses(t, c, "b", 2)
		if r := c.Explain(t.Context(), "b1"); !r.L2.Present {
			t.Errorf("not in L2 after it has come up: %+v", r.L2)
		}
	})
}

func TestBreakerIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) { o.Logger = lab.TextLogger(&log) })
		p.Fails.Store(true)
		misses(t, c, "a", 50)
		p.Fails.Store(false)
		time.Sleep(lab.BreakFor)
		misses(t, c, "b", 1)
		synctest.Wait()
		opened, closed := strings.Count(log.String(), "level=WARN msg=\"strata: circuit breaker of L2 is open\" cache=test error=\"connection refused\""), strings.Count(log.String(), "level=INFO msg=\"strata: circuit breaker of L2 is closed\"")
		if opened != 1 || closed != 1 {
			t.Errorf("opened %d times and closed %d times in the log, want once each:\n%s", opened, closed, log.String())
		}
	})
}

func TestKeysThatL2CannotHoldDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = narrow{s.Tier} })
		long := strings.Repeat("x", 101)
		for range 20 {
			_ = c.Invalidate(t.Context(), long)
		}
		if c.Stats().BreakerOpen {
			t.Error("open, though L2 has answered all that it was asked")
		}
	})
}

func TestCallersThatLeaveDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
				return 20 * time.Millisecond, nil
			})
		})
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, _ = c.GetOrLoad(ctx, fmt.Sprint(i), (&lab.Origin{}).Load)
			cancel()
		}
		if st := c.Stats(); st.BreakerOpen || st.L2.Errors > 0 {
			t.Errorf("open %v, %d errors, though L2 answers whoever waits", st.BreakerOpen, st.L2.Errors)
		}
	})
}
