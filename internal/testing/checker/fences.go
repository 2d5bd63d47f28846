package checker

import (
	"cmp"
	"slices"
	"sort"
)

// versions holds the time of each write, and the time until which storing each
// version was right.
type versions map[string]*register

type register struct {
	written map[uint64]Time
	stored  map[uint64]Time // the return of the last Set of a version
}

func newVersions(h *History) versions {
	vs := versions{}
	for _, w := range h.Writes {
		vs.of(w.Key).written[w.Version] = w.At
	}
	for _, f := range h.Fences {
		if f.Stores {
			r := vs.of(f.Key)
			r.stored[f.Version] = max(r.stored[f.Version], f.Return)
		}
	}
	return vs
}

func (vs versions) of(key string) *register {
	r := vs[key]
	if r == nil {
		r = &register{written: map[uint64]Time{0: 0}, stored: map[uint64]Time{}}
		vs[key] = r
	}
	return r
}

// until returns the time since which a version is outdated: the next version
// was written, and every Set of the version has returned. A drop with a call after that
// time must win. It reports false if the version was not written by the time by.
func (vs versions) until(key string, version uint64, by Time) (until Time, written bool) {
	r := vs.of(key)
	if at, ok := r.written[version]; !ok || at > by {
		return 0, false
	}
	next, ok := r.written[version+1]
	if !ok {
		return Never, true
	}
	return max(next, r.stored[version]), true
}

// scope selects fences.
type scope int

const (
	// confirmed: the fences of all instances that did not fail.
	confirmed scope = -2
	// everything: also fences that failed, unless they are Lost.
	everything scope = -1
)

// of selects the fences of one instance, failed or not.
func of(instance int) scope { return scope(instance) }

// fences finds, for a given time, the fence with the last call among the fences
// returned by then.
type fences struct {
	lists map[listKey][]latest
}

// latest is the fence with the last call, f, among the fences returned by the time by.
type latest struct {
	by Time
	f  Fence
}

// listKey identifies a list of fences: their scope, their key (empty for all
// keys), and whether soft ones are included.
type listKey struct {
	scope scope
	key   string
	soft  bool
}

// newFences builds the lists, each sorted by time.
func newFences(h *History) *fences {
	fs := &fences{lists: map[listKey][]latest{}}
	for _, f := range h.Fences {
		if f.Unsure {
			continue
		}
		for _, s := range []scope{confirmed, everything, of(f.Instance)} {
			if s == confirmed && f.Failed || s == everything && f.Lost {
				continue
			}
			by := f.Return
			if s != of(f.Instance) {
				by = f.known()
			}
			fs.add(listKey{s, f.Key, true}, latest{by, f})
			if !f.Soft {
				fs.add(listKey{s, f.Key, false}, latest{by, f})
			}
		}
	}
	for _, list := range fs.lists {
		slices.SortFunc(list, func(a, b latest) int { return cmp.Compare(a.by, b.by) })
		for i := 1; i < len(list); i++ {
			if list[i-1].f.Call > list[i].f.Call {
				list[i].f = list[i-1].f
			}
		}
	}
	return fs
}

func (fs *fences) add(k listKey, l latest) { fs.lists[k] = append(fs.lists[k], l) }

// known is the time from which all must know of the fence.
func (f *Fence) known() Time { return max(f.Return, f.Known) }

// latest returns the fence of key with the last call among those in scope s
// that returned before the time before. Soft fences do not count for stale
// reads.
func (fs *fences) latest(s scope, key string, stale bool, before Time) (f Fence, any bool) {
	for _, k := range []string{key, ""} {
		list := fs.lists[listKey{s, k, !stale}]
		i := sort.Search(len(list), func(i int) bool { return list[i].by >= before })
		if i > 0 && (!any || list[i-1].f.Call > f.Call) {
			f, any = list[i-1].f, true
		}
	}
	return f, any
}

// links computes which drops instances must know.
type links struct {
	p  Promise
	of map[int][]Link
}

func newLinks(all []Link, p Promise) links {
	ls := links{p, map[int][]Link{}}
	for _, l := range all {
		ls.of[l.Instance] = append(ls.of[l.Instance], l)
	}
	for _, list := range ls.of {
		slices.SortFunc(list, func(a, b Link) int { return cmp.Compare(a.At, b.At) })
	}
	return ls
}

// seen returns the time before which all drops of all instances must be known
// to r. An instance uses no entry from before its bus was connected. While connected it
// knows the arrived messages. While it knows that it is disconnected, it may use its
// entries for a bounded time. It has the slack to notice a change. A lost message is
// lost at the time of its sending. An instance that is not told of the loss detects it
// after a bounded time. An instance without a disconnection has received every message,
// and needs no confirmation by L2.
func (ls links) seen(r *Read) Time {
	list, late := ls.of[r.Instance], Time(ls.p.Delay+ls.p.Slack)
	kept := r.Call - Time(ls.p.Unconfirmed+ls.p.Slow) - late
	next := sort.Search(len(list), func(i int) bool { return list[i].At+Time(ls.p.Slack) > r.Call })
	if r.Degraded && next > 0 {
		return max(0, kept)
	}
	known, heard := Time(0), r.Call
	down := Never
	for ; next > 0 && list[next-1].State != Connected; next-- {
		if list[next-1].State == Down {
			down = list[next-1].At
		}
	}
	if next > 0 {
		known = list[next-1].At
	}
	if next < len(list) {
		heard = min(heard, list[next].At) // later messages may be lost
	}
	if kept >= down {
		known = max(known, kept)
	}
	if ls.p.Found > 0 && down == Never {
		known = max(known, ls.found(list[next:], r.Call-late))
	}
	return max(known, heard-late)
}

// found returns the time before which lost messages are detected at now, by an instance that
// changes have made deaf. If the instance becomes deaf again before it has detected a loss, the
// heartbeat that would tell of the loss may be lost, too, and the time begins anew.
func (ls links) found(changes []Link, now Time) Time {
	found := now - Time(ls.p.Found)
	for _, deaf := range slices.Backward(changes) {
		if deaf.At <= now && deaf.At > found {
			found = deaf.At - Time(ls.p.Found)
		}
	}
	return found
}
