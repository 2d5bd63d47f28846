package rig

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// Interleave runs n rounds.
func Interleave(n int, steps ...func() error) error {
	for round := range n {
		if err := Round(round, steps...); err != nil {
			return err
		}
	}
	return nil
}

// Round calls every step once, beginning with another one in each round, so
// that a passing disturbance of the machine reaches all of them.
func Round(round int, steps ...func() error) error {
	for i := range steps {
		if err := steps[(round+i)%len(steps)](); err != nil {
			return err
		}
	}
	return nil
}

// Median returns the middle of xs, 0 if there are none.
func Median[T float64 | time.Duration](xs []T) T {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// Ratios are the quotients of two measurements, round by round.
type Ratios []float64

// Compare divides each measurement in a by the one in b from the same round.
func Compare(a, b []float64) Ratios {
	r := make(Ratios, min(len(a), len(b)))
	for i := range r {
		r[i] = a[i] / b[i]
	}
	return r
}

// Quartiles returns the ratios between which the middle half of them lies.
func (r Ratios) Quartiles() (low, high float64) {
	s := slices.Sorted(slices.Values(r))
	if len(s) == 0 {
		return 0, 0
	}
	return s[len(s)/4], s[len(s)-1-len(s)/4]
}

// String gives the median and, in brackets, the middle half and the extremes.
func (r Ratios) String() string {
	if len(r) == 0 {
		return "-"
	}
	low, high := r.Quartiles()
	return fmt.Sprintf("%.2f (middle half %.2f to %.2f, all %.2f to %.2f, %d rounds)",
		Median(r), low, high, slices.Min(r), slices.Max(r), len(r))
}

// Geomean returns the geometric mean of xs, 0 if there are none.
func Geomean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range xs {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(xs)))
}

// Short writes a duration with three digits or a little more.
func Short(d time.Duration) string {
	unit := time.Nanosecond
	for limit := 1000 * unit; d >= limit && limit < time.Hour; limit *= 10 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Thousands writes n with a space between groups of three digits.
func Thousands(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// Machine describes where this runs.
func Machine() string {
	return fmt.Sprintf("%s, %s/%s, %d processors", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
}
