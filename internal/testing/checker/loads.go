package checker

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"
	"time"
)

// loadCounts reports needless loads: a load is needless if another load of the
// key was running on the same instance, or if, on any instance, a load was running or
// had returned a still fresh value.
func (j *judge) loadCounts() {
	one, cluster := newExcuses(), newExcuses()
	for _, e := range j.h.Excuses {
		if e.Cluster {
			cluster.add(e)
		} else {
			one.add(e)
		}
	}
	// A fence on the instance ends joining, except a drop of tags. So does a
	// change of the connection that makes all entries of the instance absent.
	for _, f := range j.h.Fences {
		if f.Tags {
			continue
		}
		one.add(Excuse{Instance: f.Instance, Key: f.Key, From: f.Call, To: f.Return})
	}
	for _, l := range j.h.Links {
		at := l.At
		if l.State == Down {
			at += Time(j.p.Unconfirmed)
		}
		one.add(Excuse{Instance: l.Instance, From: at, To: at + Time(j.p.Slack+j.p.Lag)})
		if l.State == Deaf { // until the loss is detected
			one.add(Excuse{Instance: l.Instance, From: l.At, To: l.At + Time(j.p.Slack+j.p.Found)})
		}
	}
	one.sort()
	cluster.sort()

	here, anywhere := map[excuseKey][]*Load{}, map[excuseKey][]*Load{}
	for i := range j.h.Loads {
		l := &j.h.Loads[i]
		k := excuseKey{l.Instance, l.Key}
		here[k] = append(here[k], l)
		k.instance = Shared
		anywhere[k] = append(anywhere[k], l)
	}
	for _, loads := range here {
		j.needless(OneLoad, loads, one, func(l *Load) Time { return l.Return })
	}
	for _, loads := range anywhere {
		j.needless(OneClusterLoad, loads, cluster, j.serves)
	}
}

// serves returns the time until which no other instance needs a load in
// addition to l.
func (j *judge) serves(l *Load) Time {
	switch {
	case !l.OK:
		return l.Return
	case j.p.TTL == 0:
		return Never
	}
	return l.Return + Time(j.p.TTL)
}

// needless reports loads of one key that began while another load served,
// unless there is an excuse since the earlier Since of the two. The earlier one
// counts because the event that ended one load may come before the call that
// started the other, in either order. Of several serving loads only the one
// with the last Since is checked: it is the hardest to excuse.
func (j *judge) needless(r Rule, loads []*Load, e *excuses, serves func(*Load) Time) {
	slices.SortFunc(loads, func(a, b *Load) int { return cmp.Compare(a.Call, b.Call) })
	var q serving
	for _, l := range loads {
		for len(q) > 0 && q[0].until <= l.Call {
			heap.Pop(&q)
		}
		if len(q) > 0 && !e.any(l, min(l.Since, q[0].Since)) {
			was := q[0].Load
			j.broken(r, l.Key, l.Call, "instance %d: load of %s, while one on instance %d that was asked for at %v and ran from %v to %v (ok: %t) would do",
				l.Instance, l.Key, was.Instance, time.Duration(was.Since), time.Duration(was.Call), time.Duration(was.Return), was.OK)
		}
		heap.Push(&q, served{l, serves(l)})
	}
}

// serving is a heap of loads with the last Since first. The others may have
// ended.
type serving []served

type served struct {
	*Load
	until Time
}

func (s serving) Len() int           { return len(s) }
func (s serving) Less(i, k int) bool { return s[i].Since > s[k].Since }
func (s serving) Swap(i, k int)      { s[i], s[k] = s[k], s[i] }
func (s *serving) Push(x any)        { *s = append(*s, x.(served)) }

func (s *serving) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}

// excuses holds excuses, sorted by time.
type excuses struct {
	lists map[excuseKey][]Excuse
}

type excuseKey struct {
	instance int // or Shared
	key      string
}

func newExcuses() *excuses { return &excuses{lists: map[excuseKey][]Excuse{}} }

func (e *excuses) add(x Excuse) {
	k := excuseKey{x.Instance, x.Key}
	e.lists[k] = append(e.lists[k], x)
}

// sort sorts by From, and sets each To to the latest To up to that element.
func (e *excuses) sort() {
	for _, list := range e.lists {
		slices.SortFunc(list, func(a, b Excuse) int { return cmp.Compare(a.From, b.From) })
		for i := 1; i < len(list); i++ {
			list[i].To = max(list[i].To, list[i-1].To)
		}
	}
}

// any reports whether there is an excuse for l between since and the beginning
// of l. An excuse for one instance counts only for loads of this instance.
func (e *excuses) any(l *Load, since Time) bool {
	for _, k := range []excuseKey{{l.Instance, l.Key}, {l.Instance, ""}, {Shared, l.Key}, {Shared, ""}} {
		list := e.lists[k]
		i := sort.Search(len(list), func(i int) bool { return list[i].From > l.Call })
		if i > 0 && list[i-1].To >= since {
			return true
		}
	}
	return false
}
