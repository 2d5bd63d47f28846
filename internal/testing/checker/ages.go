package checker

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Ages calls f for every read of an instance. old is the time between the
// return of the first fence that should have ended the value and the call of
// the read; it is zero for a value without a drop. connected is true if the instance
// has received all messages up to the promised delay before the call.
//
// A small old is expected: other instances learn of a drop when its message
// arrives.
func (h *History) Ages(p Promise, f func(r *Read, old time.Duration, connected bool)) {
	vs, links, first := newVersions(h), newLinks(h.Links, p), newFirsts(h)
	late := Time(p.Delay + p.Slack)
	for i := range h.Reads {
		r := &h.Reads[i]
		until, written := vs.until(r.Key, r.Version, r.Return)
		if r.Instance == Shared || r.Of != r.Key || !written {
			continue
		}
		old := max(0, r.Call-first.after(r.Key, r.Stale, until))
		f(r, time.Duration(old), !r.Degraded && links.seen(r) >= r.Call-late)
	}
}

// firsts finds, for a given time, the fence with the first return among the fences with
// a later call and without a failure.
type firsts map[listKey][]first

// first is the earliest return, ret, among the fences called at call or later.
type first struct{ call, ret Time }

func newFirsts(h *History) firsts {
	fs := firsts{}
	for _, f := range h.Fences {
		if f.Failed {
			continue
		}
		for _, soft := range []bool{true, false} {
			if soft || !f.Soft {
				k := listKey{confirmed, f.Key, soft}
				fs[k] = append(fs[k], first{f.Call, f.known()})
			}
		}
	}
	for _, list := range fs {
		slices.SortFunc(list, func(a, b first) int { return cmp.Compare(a.call, b.call) })
		for i := len(list) - 2; i >= 0; i-- {
			list[i].ret = min(list[i].ret, list[i+1].ret)
		}
	}
	return fs
}

// after returns the first return of a fence of key with a call after the given time, or
// Never. Soft fences do not count for stale reads.
func (fs firsts) after(key string, stale bool, time Time) Time {
	at := Never
	for _, k := range []string{key, ""} {
		list := fs[listKey{confirmed, k, !stale}]
		i := sort.Search(len(list), func(i int) bool { return list[i].call > time })
		if i < len(list) {
			at = min(at, list[i].ret)
		}
	}
	return at
}
