package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Trace returns the history as lines in the order of time, for the report of a
// violation. Excuses are left out.
func (h *History) Trace() []string {
	type line struct {
		at   Time
		text string
	}
	var lines []line
	add := func(at Time, format string, args ...any) {
		lines = append(lines, line{at, fmt.Sprintf("%-12v ", time.Duration(at)) + fmt.Sprintf(format, args...)})
	}
	for _, w := range h.Writes {
		add(w.At, "origin: %s is %d", w.Key, w.Version)
	}
	for _, l := range h.Links {
		add(l.At, "instance %d: bus %s", l.Instance, [...]string{"connected", "deaf", "down"}[l.State])
	}
	for _, f := range h.Fences {
		what := fmt.Sprintf("drop of %q (soft: %t)", f.Key, f.Soft)
		if f.Stores {
			what = fmt.Sprintf("set of %s to %d", f.Key, f.Version)
		}
		add(f.Call, "instance %d: %s called", f.Instance, what)
		add(f.Return, "instance %d: %s of %v returned (failed: %t)", f.Instance, what, time.Duration(f.Call), f.Failed)
	}
	for _, r := range h.Reads {
		if r.Instance == Shared {
			add(r.Call, "tier: %s is %d (stale: %t)", r.Key, r.Version, r.Stale)
			continue
		}
		more := ""
		if r.More > 0 {
			more = fmt.Sprintf(", and %d more reads since then returned the same", r.More)
		}
		add(max(r.Call, r.Return), "instance %d: read of %s of %v returned %d%s", r.Instance, r.Key, time.Duration(min(r.Call, r.Return)), r.Version, more)
	}
	for _, l := range h.Loads {
		add(l.Call, "instance %d: load of %s began (asked for at %v)", l.Instance, l.Key, time.Duration(l.Since))
		add(l.Return, "instance %d: load of %s of %v returned %d (ok: %t)", l.Instance, l.Key, time.Duration(l.Call), l.Version, l.OK)
	}
	for _, n := range h.Notes {
		add(n.At, "%s", n.Text)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	return texts
}
