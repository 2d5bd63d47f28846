package checker

import (
	"fmt"
	"time"
)

// Promise is the bounds by which a history is judged.
type Promise struct {
	// Delay is the longest time that a message takes to a connected instance.
	Delay time.Duration
	// Unconfirmed is the time for which a disconnected instance may serve its
	// entries, and values that it has read since.
	Unconfirmed time.Duration
	// Found is the longest time until an instance detects a lost message that
	// it was not told of, unless more are lost meanwhile; zero means no bound.
	Found time.Duration
	// Lag is the longest time until a connected instance knows that it is
	// connected.
	Lag time.Duration
	// Slow is the longest time between the reading of a value and its storing.
	Slow time.Duration
	// TTL is the shortest time for which a value is fresh; zero means no end.
	TTL time.Duration
	// Slack is the time that an instance may take to react, plus the time by
	// which the recorder's clock may be ahead.
	Slack time.Duration
}

// Rule is the name of a promise.
type Rule string

// The rules, in the order in which a read is judged by them.
const (
	// OwnValue: a read returns a value of its own key.
	OwnValue Rule = "own value"
	// Future: no read returns a version before it was written.
	Future Rule = "future"
	// PastCache: a read with SkipRead returns no version outdated before the call.
	PastCache Rule = "past the cache"
	// Local: an instance does not serve a value to calls after a drop of it on
	// the same instance, even if the drop failed.
	Local Rule = "local fence"
	// Bounded: other instances do not serve it either, once they can know of
	// the drop.
	Bounded Rule = "bounded"
	// InTier: after a drop that did not fail, the shared tier does not hold the
	// value.
	InTier Rule = "in tier"
	// Fresh: a Loader that begins after such a drop does not return the value.
	Fresh Rule = "loader entry"
	// Converged: when faults have ended, no instance serves a value that any
	// instance has dropped, and the tier does not hold it.
	Converged Rule = "convergence"
	// OneLoad: an instance runs at most one load of a key at a time.
	OneLoad Rule = "one load per instance"
	// OneClusterLoad: all instances together run one load of a key until it is
	// dropped or expires.
	OneClusterLoad Rule = "one load per cluster"
)

// Violation is a broken promise.
type Violation struct {
	Rule Rule
	Key  string
	At   Time
	Text string
}

// String returns the broken promise and the details.
func (v Violation) String() string {
	return fmt.Sprintf("%v: %s: %s", time.Duration(v.At), v.Rule, v.Text)
}

// Judge returns all violations of p.
func (h *History) Judge(p Promise) []Violation {
	j := &judge{p: p, h: h, versions: newVersions(h), fences: newFences(h), links: newLinks(h.Links, p)}
	for i := range h.Reads {
		j.read(&h.Reads[i])
	}
	for i := range h.Loads {
		j.load(&h.Loads[i])
	}
	j.loadCounts()
	return j.found
}

type judge struct {
	p        Promise
	h        *History
	versions versions
	fences   *fences
	links    links
	found    []Violation
}

func (j *judge) broken(r Rule, key string, at Time, format string, args ...any) {
	j.found = append(j.found, Violation{r, key, at, fmt.Sprintf(format, args...)})
}

// read judges one read, and reports the first rule that it breaks.
func (j *judge) read(r *Read) {
	name := fmt.Sprintf("instance %d: read of %s called at %v", r.Instance, r.Key, time.Duration(r.Call))
	if r.Of != r.Key {
		j.broken(OwnValue, r.Key, r.Return, "%s got a value of %s", name, r.Of)
		return
	}
	until, written := j.versions.until(r.Key, r.Version, r.Return)
	if !written {
		j.broken(Future, r.Key, r.Return, "%s got version %d, not written by then", name, r.Version)
		return
	}
	if next, ok := j.versions.of(r.Key).written[r.Version+1]; ok && r.Past && next < r.Call {
		j.broken(PastCache, r.Key, r.Return, "%s got version %d past the cache, old since %v", name, r.Version, time.Duration(next))
		return
	}
	for _, limit := range j.limits(r) {
		before := limit.before
		if limit.rule != Local { // an instance knows the drops of its own callers, even if the tier has lost them
			before = j.h.kept(r, before)
		}
		f, any := j.fences.latest(limit.scope, r.Key, r.Stale, before)
		if any && until < f.Call {
			j.broken(limit.rule, r.Key, r.Return, "%s got version %d, old since %v; instance %d dropped it from %v to %v (failed: %t)",
				name, r.Version, time.Duration(until), f.Instance, time.Duration(f.Call), time.Duration(f.Return), f.Failed)
			return
		}
	}
}

// limit is a bound for a read: of the fences in scope that returned before the
// time before, the latest must have taken effect.
type limit struct {
	rule   Rule
	scope  scope
	before Time
}

func (j *judge) limits(r *Read) []limit {
	switch {
	case r.Final:
		return []limit{{Converged, everything, r.Call}}
	case r.Instance == Shared:
		return []limit{{InTier, confirmed, r.Call}}
	}
	return []limit{{Local, of(r.Instance), r.Call}, {Bounded, confirmed, j.links.seen(r)}}
}

// kept returns the time before which drops must be known to r; before is that
// time without losses. Final reads come after all losses.
func (h *History) kept(r *Read, before Time) Time {
	for _, l := range h.Losses {
		if !r.Final && min(r.Call, r.Return) <= l.To && max(r.Call, r.Return) >= l.From {
			before = min(before, l.Since)
		}
	}
	return before
}

// load judges the result of one load.
func (j *judge) load(l *Load) {
	if !l.OK {
		return
	}
	until, written := j.versions.until(l.Key, l.Version, l.Return)
	f, any := j.fences.latest(confirmed, l.Key, false, l.Call)
	switch {
	case !written:
		j.broken(Future, l.Key, l.Return, "instance %d: load of %s brought version %d, not written by then", l.Instance, l.Key, l.Version)
	case any && until < f.Call:
		j.broken(Fresh, l.Key, l.Return, "instance %d: load of %s begun at %v brought version %d, old since %v; instance %d dropped it at %v",
			l.Instance, l.Key, time.Duration(l.Call), l.Version, time.Duration(until), f.Instance, time.Duration(f.Call))
	}
}
