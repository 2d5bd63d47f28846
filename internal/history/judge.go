package history

import (
	"fmt"
	"time"
)

// Promise is what a history is judged by.
type Promise struct {
	// Delay is how long a message takes at most to reach a connected instance.
	Delay time.Duration
	// Unconfirmed is how long an instance that is cut off may go on with what
	// it has, or has read since.
	Unconfirmed time.Duration
	// Found is how long it takes at most to find out that a message was lost
	// and nobody was told; zero means for ever.
	Found time.Duration
	// Lag is how long it may take a connected instance to know that it is.
	Lag time.Duration
	// Slow is how long it takes at most from when a value is read until it is
	// kept.
	Slow time.Duration
	// TTL is how long a value is fresh at least; zero means for ever.
	TTL time.Duration
	// Slack is what the instance may take to do what it has been told, and what
	// the recorder's clock may be ahead.
	Slack time.Duration
}

// Rule is a promise that can be broken.
type Rule string

// The rules, in the order in which a read is judged.
const (
	// OwnValue: a read returns what was stored under its key.
	OwnValue Rule = "own value"
	// Future: no read returns what was not written yet.
	Future Rule = "future"
	// PastCache: who asks past the cache gets nothing that was old before the call.
	PastCache Rule = "past the cache"
	// Local: what an instance has been asked to drop it does not serve to those
	// who call afterwards, whether the call failed or not.
	Local Rule = "local fence"
	// Bounded: neither do others, once they can know.
	Bounded Rule = "bounded"
	// InTier: nor does the shared tier hold it.
	InTier Rule = "in tier"
	// Fresh: nor does a Loader that begins afterwards bring it.
	Fresh Rule = "loader entry"
	// Converged: when faults have ended nobody serves what anybody has dropped,
	// nor does the tier hold it.
	Converged Rule = "convergence"
	// OneLoad: an instance runs one load of a key at a time.
	OneLoad Rule = "one load per instance"
	// OneClusterLoad: all instances run one load of a key until it is dropped
	// or expires.
	OneClusterLoad Rule = "one load per cluster"
)

// Violation is a broken promise.
type Violation struct {
	Rule Rule
	Key  string
	At   Time
	Text string
}

// String says which promise was broken and how.
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

// read judges one read; the first rule that it breaks is reported.
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
		f, any := j.fences.latest(limit.scope, r.Key, r.Stale, j.h.kept(r, limit.before))
		if any && until < f.Call {
			j.broken(limit.rule, r.Key, r.Return, "%s got version %d, old since %v; instance %d dropped it from %v to %v (failed: %t)",
				name, r.Version, time.Duration(until), f.Instance, time.Duration(f.Call), time.Duration(f.Return), f.Failed)
			return
		}
	}
}

// limit says that what the latest of some fences made old must not be seen:
// of those in scope that returned before.
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

// kept returns the time before which what was dropped must be known to r, if
// without losses that were before. Final reads come after all losses.
func (h *History) kept(r *Read, before Time) Time {
	for _, l := range h.Losses {
		if !r.Final && min(r.Call, r.Return) <= l.To && max(r.Call, r.Return) >= l.From {
			before = min(before, l.Since)
		}
	}
	return before
}

// load judges what one Loader has brought.
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
