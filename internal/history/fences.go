package history

import (
	"cmp"
	"slices"
	"sort"
)

// versions knows when each version of each key was written, and until when it
// was right to store it.
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

// until returns since when a version is old: the next version had been written,
// and every Set of it had returned. Whatever is called after that and drops it
// must win. It reports false if the version was not written by then.
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

// scope says which fences count.
type scope int

const (
	// confirmed: those of all instances that did not fail.
	confirmed scope = -2
	// everything: those that failed too, unless they are lost.
	everything scope = -1
)

// of counts the fences of one instance, failed or not.
func of(instance int) scope { return scope(instance) }

// fences finds the fence that was called last among those that returned by some
// time.
type fences struct {
	lists map[listKey][]latest
}

// latest is the fence that was called last among those that returned by then.
type latest struct {
	by Time
	f  Fence
}

// listKey names a list of fences: in scope, of a key (empty: of all keys), with
// or without soft ones.
type listKey struct {
	scope scope
	key   string
	soft  bool
}

// newFences makes the lists, each sorted by time.
func newFences(h *History) *fences {
	fs := &fences{lists: map[listKey][]latest{}}
	for _, f := range h.Fences {
		for _, s := range []scope{confirmed, everything, of(f.Instance)} {
			if s == confirmed && f.Failed || s == everything && f.Lost {
				continue
			}
			fs.add(listKey{s, f.Key, true}, f)
			if !f.Soft {
				fs.add(listKey{s, f.Key, false}, f)
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

func (fs *fences) add(k listKey, f Fence) { fs.lists[k] = append(fs.lists[k], latest{f.Return, f}) }

// latest returns the fence of key that was called last among those in scope
// that returned before some time. Soft ones do not count for stale reads.
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

// links knows what instances can have heard.
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

// seen returns the time before which everything that was dropped anywhere must
// be known to r. An instance goes by nothing from before its bus was connected,
// after that by what it hears, and, when it knows that it hears nothing, for a
// while by what it has. It is given the slack to notice a change. Messages that
// are lost are lost at once; those of which it was not told are found missing
// after a while. One that has never been cut off has heard everything, and L2
// need not confirm it.
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
		heard = min(heard, list[next].At) // what arrives later may be lost
	}
	if kept >= down {
		known = max(known, kept)
	}
	if ls.p.Found > 0 && down == Never {
		known = max(known, r.Call-Time(ls.p.Found)-late)
	}
	return max(known, heard-late)
}
