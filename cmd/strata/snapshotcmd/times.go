package snapshotcmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// times are the ages or lives of entries. They take a few kilobytes, once there is one.
type times struct {
	all  *hdrhistogram.Histogram
	most time.Duration
}

// longest is the largest time in the histogram, in seconds. Longer times count as this one.
const longest = 100 * 365 * 24 * 3600

func (t *times) add(d time.Duration) {
	if t.all == nil {
		t.all = hdrhistogram.New(1, longest, 1)
	}
	t.most = max(t.most, d)
	// Within the bounds there is no error.
	_ = t.all.RecordValue(min(max(0, int64(d/time.Second)), longest))
}

// String is the middle and the ends of the times.
func (t *times) String() string {
	if t.all == nil {
		return "none is known"
	}
	at := func(p float64) string {
		return span(min(t.most, time.Duration(t.all.ValueAtPercentile(p))*time.Second))
	}
	return fmt.Sprintf("median %s, 90 %% up to %s, longest %s", at(50), at(90), span(t.most))
}

// span is a time for people, in at most two units and rounded down.
func span(d time.Duration) string {
	switch {
	case d == format.Forever:
		return "for ever"
	case d < time.Second:
		return d.Truncate(time.Millisecond).String()
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
