package coherence_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// patient is an L2 that can hang or fail, and counts its operations.
type patient struct {
	hangs, fails atomic.Bool
	asked        atomic.Int64
}

// on returns t, as ill as p is. What a cache asks in the background does not
// count.
func (p *patient) on(t remote.Tier) remote.Tier {
	return stratatest.FaultyTier(t, func(op, _ string) (time.Duration, error) {
		if op != "Position" && op != "Changes" && op != "Probe" {
			p.asked.Add(1)
		}
		switch {
		case p.hangs.Load():
			return time.Hour, nil
		case p.fails.Load():
			return 0, errors.New("connection refused")
		}
		return 0, nil
	})
}

// illInstance returns an instance whose L2 is ill.
func illInstance(t *testing.T, s *shared, p *patient, change ...func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
	t.Helper()
	ill := func(o *strata.Options[string, int64]) { o.Remote.Tier = p.on(s.tier) }
	return instance(t, s, append([]func(*strata.Options[string, int64]){ill}, change...)...)
}

// misses asks for n keys that c does not have, and returns how long each took.
func misses(t *testing.T, c *strata.Cache[string, int64], name string, n int) (took []time.Duration) {
	t.Helper()
	o := &origin{}
	for i := range n {
		start := time.Now()
		mustGet(t, c, fmt.Sprint(name, i), o.load)
		took = append(took, time.Since(start))
	}
	return took
}

func TestDeadL2CostsFiveTimeoutsAndThenNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		c := illInstance(t, s, p)
		p.hangs.Store(true)
		took := misses(t, c, "a", 100)
		for i, d := range took {
			want := time.Duration(0)
			if i < breakAfter {
				want = remoteTimeout
			}
			if d != want {
				t.Errorf("miss %d took %v, want %v", i, d, want)
			}
		}
		if n := p.asked.Load(); n != breakAfter || !c.Stats().BreakerOpen {
			t.Errorf("L2 was asked %d times, open %v; want 5, true", n, c.Stats().BreakerOpen)
		}
	})
}

func TestL2ThatIsLeftAloneIsTriedOnceAfterFiveSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		c := illInstance(t, s, p)
		p.hangs.Store(true)
		misses(t, c, "a", 5)
		opened := time.Now()
		asked := p.asked.Load()
		time.Sleep(breakFor - time.Second)
		misses(t, c, "b", 100)
		if n := p.asked.Load(); n != asked {
			t.Errorf("asked %d times %v after it was left alone", n-asked, time.Since(opened))
		}
		for round := range 3 {
			time.Sleep(breakFor)
			o := &origin{}
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() { mustGet(t, c, fmt.Sprint("round", round, i), o.load) })
			}
			wg.Wait()
			if n := p.asked.Load() - asked; n != int64(round+1) {
				t.Errorf("asked %d times by now, want %d", n, round+1)
			}
		}
	})
}

func TestL2ThatAnswersIsUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		c, well := illInstance(t, s, p), instance[string, int64](t, s)
		p.fails.Store(true)
		misses(t, c, "a", 10)
		p.fails.Store(false)
		must(t, well.Set(t.Context(), "k", 7))
		time.Sleep(breakFor)
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
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		c := illInstance(t, s, p)
		must(t, c.Set(t.Context(), "k", 1))
		p.hangs.Store(true)
		asked := p.asked.Load()
		for range 100 {
			if took := gets(t, c, never(t), 1); took != 0 {
				t.Errorf("a hit took %v", took)
			}
		}
		misses(t, c, "a", 5)
		for range 100 {
			if took := gets(t, c, never(t), 1); took != 0 {
				t.Errorf("a hit took %v", took)
			}
		}
		if n := p.asked.Load() - asked; n != 5 {
			t.Errorf("asked %d times, want 5", n)
		}
	})
}

func TestSuccessBetweenFailuresKeepsTheBreakerClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		c := illInstance(t, s, p)
		for i := range 5 {
			p.fails.Store(true)
			misses(t, c, fmt.Sprint("bad", i, "-"), 4)
			p.fails.Store(false)
			misses(t, c, fmt.Sprint("good", i, "-"), 1)
		}
		if c.Stats().BreakerOpen {
			t.Error("open after four failures in a row")
		}
		p.fails.Store(true)
		misses(t, c, "bad", 5)
		if !c.Stats().BreakerOpen {
			t.Error("closed after five failures in a row")
		}
	})
}

func TestBreakerFollowsItsOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		never := illInstance(t, s, p, func(o *strata.Options[string, int64]) { o.Remote.BreakAfter = -1 })
		soon := illInstance(t, s, p, func(o *strata.Options[string, int64]) {
			o.Remote.BreakAfter, o.Remote.BreakFor = 2, time.Minute
		})
		p.fails.Store(true)
		misses(t, never, "a", 100)
		if n := p.asked.Load(); n != 100 || never.Stats().BreakerOpen {
			t.Errorf("without a breaker L2 was asked %d times, want 100", n)
		}
		p.asked.Store(0)
		misses(t, soon, "a", 100)
		time.Sleep(time.Minute - 1)
		misses(t, soon, "b", 1)
		if n := p.asked.Load(); n != 2 {
			t.Errorf("asked %d times, want 2", n)
		}
		time.Sleep(1)
		misses(t, soon, "c", 1)
		if n := p.asked.Load(); n != 3 {
			t.Errorf("asked %d times after a minute, want 3", n)
		}
	})
}

func TestWhileL2IsLeftAloneTheBusCountsAsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		c := illInstance(t, s, p, func(o *strata.Options[string, int64]) { o.TTL = time.Hour })
		must(t, c.Set(t.Context(), "k", 1))
		degraded := func() bool {
			var info strata.Info
			if _, err := c.GetOrLoad(t.Context(), "k", (&origin{}).load, strata.ReadInfo(&info)); err != nil {
				t.Error(err)
			}
			return info.Degraded
		}
		if degraded() || !c.Stats().Connected {
			t.Error("degraded while all is well")
		}
		p.fails.Store(true)
		misses(t, c, "a", 5)
		if !degraded() || c.Stats().Connected {
			t.Error("not degraded while L2 is left alone")
		}
		if left := c.Explain(t.Context(), "a4").L1.Left; left > strata.UnconfirmedTTL {
			t.Errorf("what is loaded meanwhile lives for %v in L1, want %v at most", left, strata.UnconfirmedTTL)
		}
		p.fails.Store(false)
		time.Sleep(breakFor)
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
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		c, well := illInstance(t, s, p), instance[string, int64](t, s)
		must(t, well.Set(t.Context(), "k", 1))
		synctest.Wait()
		p.hangs.Store(true)
		misses(t, c, "a", 5)
		start := time.Now()
		var unconfirmed *strata.RemoteError
		if err := c.Invalidate(t.Context(), "k"); !errors.As(err, &unconfirmed) || unconfirmed.Pending != 1 {
			t.Errorf("got %v, want a *RemoteError with 1 pending", err)
		}
		if took := time.Since(start); took > remoteTimeout {
			t.Errorf("it took %v", took)
		}
		p.hangs.Store(false)
		time.Sleep(breakFor + 5*time.Second)
		synctest.Wait()
		if v, ok := well.Get(t.Context(), "k"); ok || c.Stats().Pending != 0 {
			t.Errorf("got %d, %d drops pending", v, c.Stats().Pending)
		}
	})
}

func TestInstanceStartsWhileL2IsDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, p := newShared(), &patient{}
		p.hangs.Store(true)
		start := time.Now()
		c := illInstance(t, s, p)
		if took := time.Since(start); took != 0 {
			t.Errorf("New took %v", took)
		}
		var total time.Duration
		for _, d := range misses(t, c, "a", 100) {
			total += d
		}
		if want := breakAfter * remoteTimeout; total > want {
			t.Errorf("100 misses took %v, want %v at most", total, want)
		}
		p.hangs.Store(false)
		time.Sleep(2 * breakFor)
		misses(t, c, "b", 2)
		if r := c.Explain(t.Context(), "b1"); !r.L2.Present {
			t.Errorf("not in L2 after it has come up: %+v", r.L2)
		}
	})
}

func TestBreakerIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log logText
		s, p := newShared(), &patient{}
		c := illInstance(t, s, p, func(o *strata.Options[string, int64]) { o.Logger = textLogger(&log) })
		p.fails.Store(true)
		misses(t, c, "a", 50)
		p.fails.Store(false)
		time.Sleep(breakFor)
		misses(t, c, "b", 1)
		synctest.Wait()
		opened, closed := strings.Count(log.String(), "level=WARN msg=\"strata: circuit breaker of L2 is open\" cache=test error=\"connection refused\""), strings.Count(log.String(), "level=INFO msg=\"strata: circuit breaker of L2 is closed\"")
		if opened != 1 || closed != 1 {
			t.Errorf("opened %d times and closed %d times in the log, want once each:\n%s", opened, closed, log.String())
		}
	})
}

func TestKeysThatL2CannotHoldDoNotOpenTheBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		c := instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = narrow{s.tier} })
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
	bubble(t, func(t *testing.T) {
		s := newShared()
		c := instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.tier, func(op, _ string) (time.Duration, error) {
				return 20 * time.Millisecond, nil
			})
		})
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, _ = c.GetOrLoad(ctx, fmt.Sprint(i), (&origin{}).load)
			cancel()
		}
		if st := c.Stats(); st.BreakerOpen || st.L2.Errors > 0 {
			t.Errorf("open %v, %d errors, though L2 answers whoever waits", st.BreakerOpen, st.L2.Errors)
		}
	})
}

// textLogger returns a logger that writes to w.
func textLogger(w *logText) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
