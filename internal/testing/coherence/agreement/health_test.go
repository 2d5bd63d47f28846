package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// errFull is the error of a store without memory left.
var errFull = fmt.Errorf("OOM command not allowed: %w", remote.ErrRefused)

// picky is an L2 that refuses some operations, and counts those.
type picky struct {
	refuses []string
	with    error
	on      atomic.Bool
	refused atomic.Int64
}

func (p *picky) over(t remote.Tier) remote.Tier {
	return stratatest.FaultyTier(t, func(op, _ string) (time.Duration, error) {
		if p.on.Load() && slices.Contains(p.refuses, op) {
			p.refused.Add(1)
			return 0, p.with
		}
		return 0, nil
	})
}

// lines returns the lines of log with a text.
func lines(log *lab.LogText, what string) (all []string) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, what) {
			all = append(all, line)
		}
	}
	return all
}

// wantLines fails unless log has between one and most lines with a text.
func wantLines(t *testing.T, log *lab.LogText, most int, what string) {
	t.Helper()
	if n := len(lines(log, what)); n == 0 || n > most {
		t.Errorf("%d lines say %q, want 1 to %d:\n%s", n, what, most, log.String())
	}
}

func TestFullL2IsAskedToStoreNoMoreAndUsedForAllElse(t *testing.T) {
	for name, breakAfter := range map[string]int{"leases and values": 0, "leases and values, and one failure is enough": 1, "values": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lab.LogText
				s := lab.NewShared()
				p := &picky{refuses: []string{"Acquire", "Put", "Extend"}, with: errFull}
				if name == "values" {
					p.refuses = []string{"Put", "Extend"}
				}
				a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
					o.Remote.Tier, o.Logger, o.Remote.BreakAfter = p.over(s.Tier), lab.TextLogger(&log), breakAfter
				})
				b := lab.Instance[string, int64](t, s)
				lab.Must(t, b.Set(t.Context(), "theirs", 7))
				misses(t, a, "cold", 200) // leases are asked for at once by now
				p.on.Store(true)
				o := &lab.Origin{}
				for i := range 1200 { // 12 seconds
					key := fmt.Sprint(i)
					lab.MustGet(t, a, key, o.Load)
					if _, ok := a.Get(t.Context(), key); !ok {
						t.Fatal("what was loaded is not in L1")
					}
					if i%10 == 9 {
						lab.Must(t, a.Invalidate(t.Context(), "gone"))
						_ = a.Set(t.Context(), "set", 1)
					}
					if st := a.Stats(); st.BreakerOpen || !st.Connected {
						t.Fatalf("after %d loads: breaker open %v, connected %v; want false, true", i, st.BreakerOpen, st.Connected)
					}
					time.Sleep(10 * time.Millisecond)
				}
				if v, ok := a.Get(t.Context(), "theirs"); v != 7 || !ok {
					t.Errorf("got %d, %v, which L2 holds", v, ok)
				}
				if name == "values" {
					return // each granted lease ends a row of failures
				}
				if n := p.refused.Load(); n > 5+3 || !a.Stats().StoringStopped {
					t.Errorf("asked to store %d times in 12 s, stopped %v; want 5 and one each 5 s, true", n, a.Stats().StoringStopped)
				}
				wantLines(t, &log, 2, "L2 refuses\"")
				wantLines(t, &log, 1, "nothing is stored in L2")
				p.on.Store(false)
				time.Sleep(lab.BreakFor)
				misses(t, a, "later", 2)
				if _, ok := b.Get(t.Context(), "later1"); !ok || a.Stats().StoringStopped {
					t.Error("nothing is stored in L2 when it has room again")
				}
				time.Sleep(10 * time.Second)
				misses(t, a, "last", 1)
				wantLines(t, &log, 1, "level=INFO msg=\"strata: values are stored in L2 again\"")
				wantLines(t, &log, 1, "level=INFO msg=\"strata: L2 refuses no more\"")
				if n := len(lines(&log, "does not answer")); n != 0 {
					t.Errorf("%d lines say that a full L2 does not answer", n)
				}
			})
		})
	}
}

func TestRefusedStoreGivesItsLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		p := &picky{refuses: []string{"Put"}, with: errFull}
		p.on.Store(true)
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = p.over(s.Tier) })
		b := lab.Instance[string, int64](t, s)
		lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
		start := time.Now()
		lab.MustGet(t, b, "k", (&lab.Origin{}).Load)
		if took := time.Since(start); took != 0 {
			t.Errorf("the next instance waited %v for a lease of which nothing comes", took)
		}
	})
}

func TestLogTellsRefusalsOfL2FromMissingAnswers(t *testing.T) {
	for want, err := range map[string]error{
		"level=WARN msg=\"strata: L2 refuses\" cache=test op=get error=\"NOPERM":      fmt.Errorf("NOPERM no permissions: %w", remote.ErrRefused),
		"level=WARN msg=\"strata: L2 does not answer\" cache=test op=get error=\"i/o": errors.New("i/o timeout"),
	} {
		synctest.Test(t, func(t *testing.T) {
			var log lab.LogText
			s := lab.NewShared()
			p := &picky{refuses: []string{"Get", "Acquire", "Put"}, with: err}
			c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				o.Remote.Tier, o.Logger = p.over(s.Tier), lab.TextLogger(&log)
			})
			p.on.Store(true)
			misses(t, c, "a", 10)
			wantLines(t, &log, 1, want)
			wantLines(t, &log, 1, "level=WARN msg=\"strata: circuit breaker of L2 is open\" cache=test error=")
			if !c.Stats().BreakerOpen {
				t.Error("L2 is asked on and on")
			}
			p.on.Store(false)
			time.Sleep(lab.BreakFor)
			misses(t, c, "b", 2)
			time.Sleep(10 * time.Second)
			misses(t, c, "c", 2)
			wantLines(t, &log, 1, "level=INFO msg=\"strata: circuit breaker of L2 is closed\"")
		})
	}
}

func TestNoStateIsLoggedMoreThanOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) {
			o.Logger, o.ErrorTTL = lab.TextLogger(&log), -1
			o.Remote.BreakAfter, o.Remote.BreakFor = 1, time.Millisecond
		})
		for i := range 600 { // a minute
			p.Fails.Store(i%2 == 0)
			for j := range 3 {
				_, _ = c.GetOrLoad(t.Context(), fmt.Sprint(i, "-", j), func(context.Context, string) (int64, error) {
					if i%20 == 0 {
						panic("at the disco")
					}
					return 0, errors.New("origin is down")
				})
			}
			time.Sleep(100 * time.Millisecond)
		}
		told := map[string]int{}
		for line := range strings.Lines(log.String()) {
			_, what, _ := strings.Cut(line, "msg=")
			what, _, _ = strings.Cut(what, " cache=")
			told[what]++
		}
		for what, n := range told {
			if n > 7 {
				t.Errorf("%s: %d times in a minute", what, n)
			}
		}
		if len(told) < 5 {
			t.Errorf("the schedule shows little: %v", told)
		}
	})
}

func TestHealthOfTheOriginIsLogged(t *testing.T) {
	for _, show := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log lab.LogText
			c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
				o.Logger, o.ErrorTTL, o.ShowKeys = lab.TextLogger(&log), -1, show
			})
			s := &lab.Fallible{}
			asked := 0
			get := func(n int) {
				for range n {
					asked++
					_, _ = c.GetOrLoad(t.Context(), fmt.Sprint("secret", asked), s.Load)
				}
			}
			get(10)
			if log.Len() > 0 {
				t.Errorf("a well origin is news: %s", log.String())
			}
			s.Fail(lab.ErrDown)
			for range 60 {
				get(10)
				time.Sleep(time.Second)
			}
			wantLines(t, &log, 1, "level=WARN msg=\"strata: loads fail\" cache=")
			wantLines(t, &log, 2, "error=\"origin is down\"") // also for the first failed load
			if strings.Contains(log.String(), "secret") != show {
				t.Errorf("ShowKeys %v: %s", show, log.String())
			}
			s.Fail(nil)
			for range 20 {
				get(10)
				time.Sleep(time.Second)
			}
			wantLines(t, &log, 1, "level=INFO msg=\"strata: loads succeed again\"")
		})
	}
}

func TestCancelledLoadsAreNoNewsOfTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Logger = lab.TextLogger(&log) })
		_, _ = c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 0, context.Canceled })
		_, _ = c.GetOrLoad(t.Context(), "l", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound })
		if log.Len() > 0 {
			t.Errorf("logged: %s", log.String())
		}
	})
}

func TestPanicsOfRefreshesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Logger, o.TTL, o.RefreshAt, o.Jitter = lab.TextLogger(&log), time.Minute, 0.8, -1
		})
		keys := []string{"a", "b", "c"}
		for _, k := range keys {
			lab.MustGet(t, c, k, (&lab.Origin{}).Load)
		}
		time.Sleep(55 * time.Second)
		for _, k := range keys {
			lab.MustGet(t, c, k, func(context.Context, string) (int64, error) { panic("at the disco") })
			synctest.Wait()
		}
		wantLines(t, &log, 1, "level=ERROR msg=\"strata: loader panicked\" cache=test error=\"strata: loader panicked: at the disco\" more=0 stack=")
		wantLines(t, &log, 1, "health_test.go")
	})
}

func TestPanicErrorShowsItsValueUpToABound(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{"at the disco", "strata: loader panicked: at the disco"},
		{lab.ErrDown, "strata: loader panicked: origin is down"},
		{42, "strata: loader panicked: 42"},
		{time.Second, "strata: loader panicked: 1s"},
		{make([]byte, 1<<20), "strata: loader panicked with a value of type []uint8"},
		{strings.Repeat("é", 1000), "strata: loader panicked: " + strings.Repeat("é", 256) + "…"},
		{(*stubbornError)(nil), "strata: loader panicked: <nil>"},
	} {
		err := &strata.LoadPanicError{Value: tt.value}
		if got := err.Error(); got != tt.want {
			t.Errorf("got %.80q, want %.80q", got, tt.want)
		}
	}
}

// stubbornError panics when its text is read through a nil pointer.
type stubbornError struct{ text string }

func (s *stubbornError) Error() string { return s.text }

func TestBreakersAreLoggedAsTheyAreAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) { o.Logger = lab.TextLogger(&log) })
		for i := range 3 { // opens twice within ten seconds
			p.Fails.Store(true)
			misses(t, c, fmt.Sprint("bad", i), 10)
			time.Sleep(lab.BreakFor)
			p.Fails.Store(i == 2)
			misses(t, c, fmt.Sprint("good", i), 2)
		}
		for range 8 { // it stays dead; not each pause of the breaker is over after BreakFor
			time.Sleep(lab.BreakFor)
			misses(t, c, fmt.Sprint("dead", log.Len()), 3)
		}
		last := ""
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "L2 is open") || strings.Contains(line, "L2 is closed") {
				last = line
			}
		}
		if !c.Stats().BreakerOpen || !strings.Contains(last, "is open") {
			t.Errorf("open %v, and the last that is said of it: %s", c.Stats().BreakerOpen, last)
		}
	})
}
