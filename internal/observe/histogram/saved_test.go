package histogram

import (
	"math"
	"testing"
	"time"
)

func TestSavedTimeNeverFallsAndWaitsForTheFirstLoad(t *testing.T) {
	var s Saved
	for i, step := range []struct {
		reads      uint64
		mean, want time.Duration
	}{
		{100, 0, 0}, // no load has ended
		{110, time.Millisecond, 110 * time.Millisecond},
		{90, time.Millisecond, 110 * time.Millisecond}, // an older count
		{120, 2 * time.Millisecond, 130 * time.Millisecond},
	} {
		if got := s.UpTo(step.reads, step.mean); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	most := s.UpTo(math.MaxUint64/2, time.Hour)
	if next := s.UpTo(math.MaxUint64, time.Hour); most < 1<<61 || next < most {
		t.Errorf("the sum goes over: %d, then %d", most, next)
	}
}
