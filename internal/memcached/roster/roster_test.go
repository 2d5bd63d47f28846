package roster_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/memcached/roster"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// node is a node without connections.
type node struct {
	name           string
	open           atomic.Int64 // connections in use
	renewed, ended atomic.Int64
}

func (n *node) Name() string { return n.name }

func (n *node) Renew() { n.renewed.Add(1) }

func (n *node) Stats() pool.Stats { return pool.Stats{Dials: 1, Open: int(n.open.Load())} }

func (n *node) Close() {
	n.ended.Add(1)
	n.open.Store(0)
}

// begin returns a roster, and a function that replaces its list.
func begin(t *testing.T, mode roster.Mode, names ...string) (*roster.Roster[*node], func(...string) bool) {
	t.Helper()
	places := func(names []string) (*roster.Ring, []roster.Server) {
		var all []roster.Server
		for _, name := range names {
			all = append(all, roster.Server{Address: name})
		}
		r, err := roster.NewRing(mode, all)
		if err != nil {
			t.Fatal(err)
		}
		return r, all
	}
	r, all := places(names)
	s := roster.New(mode, r, all, func(name string) *node { return &node{name: name} })
	return s, func(names ...string) bool { return s.Replace(places(names)) }
}

// TestNodesLeaveWhenTheyAreIdle: not before, and their counters stay.
func TestNodesLeaveWhenTheyAreIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, replace := begin(t, roster.Ketama, "a:1", "b:1")
		a, b := s.Now().All[0], s.Now().All[1]
		b.open.Store(1)
		if !replace("a:1", "c:1") {
			t.Fatal("refused")
		}
		time.Sleep(time.Minute) // in the bubble
		if b.ended.Load() > 0 || b.renewed.Load() == 0 {
			t.Errorf("a node in use: ended %d times, renewed %d times", b.ended.Load(), b.renewed.Load())
		}
		b.open.Store(0)
		time.Sleep(3 * time.Second) // in the bubble
		if b.ended.Load() != 1 || a.ended.Load() > 0 || a.renewed.Load() > 0 {
			t.Errorf("an idle node ended %d times, one that stays %d times, renewed %d times", b.ended.Load(), a.ended.Load(), a.renewed.Load())
		}
		if got := s.Stats(); got.Dials != 3 || s.Now().All[0] != a {
			t.Errorf("%+v", got)
		}
		s.Close()
		if a.ended.Load() != 1 || b.ended.Load() != 1 {
			t.Errorf("Close ended nodes %d and %d times", a.ended.Load(), b.ended.Load())
		}
	})
}

// TestNumbersStandForOneServerOfOneList: the last two lists are known.
func TestNumbersStandForOneServerOfOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, replace := begin(t, roster.Ketama, "a:1", "b:1")
		defer s.Close()
		find := func(number int) string {
			l, at, ok := s.Numbered(number)
			if !ok {
				return ""
			}
			return l.All[at].Name()
		}
		all := func() (names []string) {
			for number := range 8 {
				names = append(names, find(number))
			}
			return names
		}
		if got := all(); !slices.Equal(got, []string{"a:1", "b:1", "", "", "", "", "", ""}) {
			t.Errorf("%q", got)
		}
		replace("b:1", "c:1", "a:1")
		if got := all(); !slices.Equal(got, []string{"a:1", "b:1", "b:1", "c:1", "a:1", "", "", ""}) {
			t.Errorf("%q", got)
		}
		replace("c:1", "a:1", "b:1") // the same by another order
		replace("a:1")
		if got := all(); !slices.Equal(got, []string{"", "", "b:1", "c:1", "a:1", "a:1", "", ""}) {
			t.Errorf("%q", got)
		}
	})
}

// TestClosedRosterKeepsItsList: also while nodes leave.
func TestClosedRosterKeepsItsList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, replace := begin(t, roster.Modula, "a:1", "b:1")
		b := s.Now().All[1]
		b.open.Store(1)
		replace("a:1")
		s.Close()
		if replace("b:1", "a:1") || !slices.Equal(s.Now().Names(), []string{"a:1"}) || b.ended.Load() != 1 {
			t.Errorf("%q, ended %d times", s.Now().Names(), b.ended.Load())
		}
	})
}
