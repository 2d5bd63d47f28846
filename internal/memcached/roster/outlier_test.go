package roster

import (
	"errors"
	"testing"
	"time"
)

var (
	errDown = errors.New("down")      // read-only
	start   = time.Unix(1_000_000, 0) // read-only
)

// fail notes a failure after each of some times.
func fail(s *Outlier, after ...time.Duration) {
	for _, d := range after {
		s.Failed(start.Add(d), errDown)
	}
}

func TestServerGoesOutAfterFailuresThatLast(t *testing.T) {
	for name, c := range map[string]struct {
		at  []time.Duration
		out bool
	}{
		"none":               {nil, false},
		"many at once":       {[]time.Duration{0, 0, 0, 0, 0, time.Second - 1}, false},
		"two far apart":      {[]time.Duration{0, time.Hour}, false},
		"three for a second": {[]time.Duration{0, 1, time.Second}, true},
	} {
		s := NewOutlier(time.Second)
		if fail(s, c.at...); s.Out() != c.out {
			t.Errorf("%s: out is %v", name, s.Out())
		}
	}
}

func TestAnswerBetweenFailuresKeepsAServerIn(t *testing.T) {
	s := NewOutlier(time.Second)
	fail(s, 0, time.Second)
	s.Answered()
	fail(s, 2*time.Second, 3*time.Second-1, 3*time.Second-1)
	if s.Out() {
		t.Error("out although it has answered within the second")
	}
	if fail(s, 3*time.Second); !s.Out() || s.Last() != errDown {
		t.Errorf("out is %v after a second of failures, last error %v", s.Out(), s.Last())
	}
}

func TestAnyAnswerBringsAServerBack(t *testing.T) {
	s := NewOutlier(0)
	fail(s, 0, 0, 0)
	if !s.Out() {
		t.Fatal("not out")
	}
	s.Answered()
	if s.Out() || s.Last() != nil || s.Due(start.Add(time.Hour)) {
		t.Error("still out, or due for a trial")
	}
	if fail(s, time.Hour, time.Hour); s.Out() {
		t.Error("failures from before the answer count")
	}
}

// TestTrialsBecomeRareAndNeverEnd counts the trials of two minutes, and looks at the
// pauses between them.
func TestTrialsBecomeRareAndNeverEnd(t *testing.T) {
	s := NewOutlier(0)
	fail(s, 0, 0, 0)
	last, want := start, FirstPause
	trials := 0
	for now := start; now.Before(start.Add(2 * time.Minute)); now = now.Add(10 * time.Millisecond) {
		if !s.Due(now) {
			continue
		}
		trials++
		if got := now.Sub(last); got < want || got > want+want/8+10*time.Millisecond {
			t.Errorf("trial %d after %v, not %v", trials, got, want)
		}
		if s.Due(now) {
			t.Error("two trials at once")
		}
		s.Failed(now, errDown) // as the trial does
		last, want = now, min(2*want, LongestPause)
	}
	if trials < 25 || trials > 31 {
		t.Errorf("%d trials", trials)
	}
}

func TestTheFirstPauseIsShortEachTime(t *testing.T) {
	s := NewOutlier(0)
	fail(s, 0, 0, 0)
	for range 10 {
		s.Due(start.Add(time.Hour))
	}
	s.Answered()
	fail(s, 2*time.Hour, 2*time.Hour, 2*time.Hour)
	if s.Due(start.Add(2*time.Hour + FirstPause - 1)) {
		t.Error("due before the first pause is over")
	}
	if !s.Due(start.Add(2*time.Hour + FirstPause + FirstPause/8)) {
		t.Error("not due after the first pause")
	}
}

func TestAnsweredAllocatesNothing(t *testing.T) {
	s := NewOutlier(time.Second)
	if n := testing.AllocsPerRun(100, func() {
		s.Answered()
		s.Out()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
