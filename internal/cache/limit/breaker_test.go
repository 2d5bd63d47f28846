package limit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// play runs a script against a breaker that opens for 100 after 3 failures. A
// step is a time and an action: "ask" with the expected answer yes, no or
// probe; "ok", "fail", "probe-ok" or "probe-fail", with opens or closes if that
// change is expected; or "is" with the expected state.
func play(t *testing.T, script string) {
	t.Helper()
	b := limit.NewBreaker(3, 100)
	for i, step := range strings.Split(script, ";") {
		var now int64
		var what, want string
		if n, _ := fmt.Sscan(step, &now, &what, &want); n < 2 {
			t.Fatalf("step %d is wrong: %q", i, step)
		}
		if got := perform(b, now, what); got != want {
			t.Fatalf("step %d, %q: got %q", i, strings.TrimSpace(step), got)
		}
	}
}

func perform(b *limit.Breaker, now int64, what string) (got string) {
	switch what {
	case "ask":
		switch ok, probe := b.Allow(now); {
		case probe && ok:
			return "probe"
		case ok:
			return "yes"
		}
		return "no"
	case "is":
		return [...]string{"closed", "open", "half-open"}[b.State()]
	}
	was := b.State()
	outcome, probe := strings.CutPrefix(what, "probe-")
	changed := b.Report(now, probe, outcome == "fail")
	switch {
	case !changed:
		return ""
	case was == limit.Closed:
		return "opens"
	}
	return "closes"
}

func TestBreakerFollowsTheStore(t *testing.T) {
	const open = "1 fail; 1 fail; 1 fail opens; "
	for name, script := range map[string]string{
		"closed at first":                     "0 is closed; 0 ask yes; 0 ok",
		"opens after failures in a row":       "1 fail; 2 fail; 2 ask yes; 3 fail opens; 3 is open; 3 ask no",
		"a success begins the row anew":       "1 fail; 2 fail; 3 ok; 4 fail; 5 fail; 5 ask yes; 6 fail opens",
		"open for its time":                   open + "100 ask no; 101 ask probe; 101 is half-open",
		"one probe at a time":                 open + "101 ask probe; 101 ask no; 150 ask no; 200 ask no",
		"probe that succeeds closes":          open + "101 ask probe; 105 probe-ok closes; 105 is closed; 105 ask yes",
		"after that a whole row opens":        open + "101 ask probe; 105 probe-ok closes; 106 fail; 106 fail; 106 ask yes; 106 fail opens",
		"probe that fails opens again":        open + "101 ask probe; 110 probe-fail; 110 is open; 209 ask no; 210 ask probe",
		"late failure does not prolong":       open + "50 fail; 90 fail; 90 is open; 101 ask probe",
		"late failure does not end the probe": open + "101 ask probe; 102 fail; 102 is half-open; 103 ask no; 104 probe-ok closes",
		"late success closes":                 open + "50 ok closes; 50 ask yes",
		"late success closes under a probe":   open + "101 ask probe; 102 ok closes; 102 ask yes; 103 probe-ok",
		"its probe's failure is one failure":  open + "101 ask probe; 102 ok closes; 103 probe-fail; 103 ask yes; 104 fail; 105 fail opens",
		"silent probe is given up":            open + "101 ask probe; 200 ask no; 201 ask probe; 201 ask no; 300 ask no; 301 ask probe",
		"given up probe may close":            open + "101 ask probe; 201 ask probe; 202 probe-ok closes; 202 ask yes",
		"given up probe prolongs nothing":     open + "101 ask probe; 201 ask probe; 202 probe-fail; 250 probe-fail; 301 ask no; 302 ask probe",
		"later success changes nothing":       open + "101 ask probe; 102 probe-ok closes; 103 ok; 103 is closed",
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

func TestBreakerOfNoFailuresIsDisabled(t *testing.T) {
	for name, b := range map[string]*limit.Breaker{
		"zero":     {},
		"none":     limit.NewBreaker(0, time.Second),
		"negative": limit.NewBreaker(-1, time.Second),
	} {
		for range 100 {
			if b.Report(0, false, true) {
				t.Errorf("%s: a report has changed it", name)
			}
		}
		if ok, probe := b.Allow(0); !ok || probe || b.State() != limit.Closed {
			t.Errorf("%s: calls are not simply allowed", name)
		}
	}
}

func TestBreakerLetsOneProbeThroughHoweverManyAsk(t *testing.T) {
	const callers, rounds, open = 4, 2000, 10
	b := limit.NewBreaker(1, open)
	b.Report(-open, false, true)
	var now, probing atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for now.Load() < rounds*open && !t.Failed() {
				switch ok, probe := b.Allow(now.Load()); {
				case ok != probe:
					t.Error("a call was let through that is no probe")
					return
				case probe:
					if probing.Add(1) > 1 {
						t.Error("two probes at once")
					}
					runtime.Gosched()
					probing.Add(-1)
					b.Report(now.Load(), true, true)
					now.Add(open)
				default:
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
}

func TestBreakerThatWasClosedStaysSoHoweverManyAsk(t *testing.T) {
	const callers, rounds = 3, 200000
	b := limit.NewBreaker(1, 0)
	var done atomic.Bool
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for !done.Load() {
				b.Allow(0)
			}
		})
	}
	for range rounds {
		// No other goroutine reports, so each report finds the state that the
		// last one left.
		if !b.Report(0, false, true) {
			t.Error("a failure does not open it")
			break
		}
		if !b.Report(0, false, false) {
			t.Error("a success does not close it")
			break
		}
	}
	done.Store(true)
	wg.Wait()
}

func TestBreakerAgreesOnItsChangesHoweverReportsInterleave(t *testing.T) {
	const callers, each = 8, 2000
	b := limit.NewBreaker(2, 5)
	var now, changes atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				at := now.Add(1)
				if ok, probe := b.Allow(at); ok && b.Report(at, probe, rand.N(3) > 0) {
					changes.Add(1)
				}
			}
		})
	}
	wg.Wait()
	// The breaker opens and closes in turn, so the number of changes gives its
	// state at the end.
	if n, closed := changes.Load(), b.State() == limit.Closed; n == 0 || n%2 == 0 != closed {
		t.Errorf("%d changes, and closed is %v at the end", n, closed)
	}
}

func TestBreakerIsCalmOnlyWhenNothingHasFailed(t *testing.T) {
	b := limit.NewBreaker(3, 100)
	for i, want := range []bool{true, false, true} {
		if b.Calm() != want {
			t.Errorf("after %d reports: calm %v", i, !want)
		}
		b.Report(int64(i), false, i == 0)
	}
	for range 3 {
		b.Report(1, false, true)
	}
	if b.Calm() {
		t.Error("an open breaker is calm")
	}
	b.Allow(500)
	if b.Calm() {
		t.Error("a half open breaker is calm")
	}
}

func TestBreakerThatStaysOpenWithoutEndLetsNothingThrough(t *testing.T) {
	b := limit.NewBreaker(1, math.MaxInt64)
	b.Report(5, false, true)
	for now := range int64(3) {
		if ok, _ := b.Allow(10 + now); ok {
			t.Error("a call is let through")
		}
	}
}
