package tier_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// TestSlotThatIsBeingMovedIsNoChangeOfServer: else each operation there would repeat all
// drops of late, and the repeated drops of its keys would repeat themselves without end.
func TestSlotThatIsBeingMovedIsNoChangeOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newNodes(2, func(_ int, command string) string {
			if strings.HasPrefix(command, "EVAL") {
				return ":1\r\n"
			}
			return value("run1")
		})
		c.thought = func(key string) int {
			if strings.Contains(key, "word") {
				return 1
			}
			return 0
		}
		c.all[1].passing = true
		tr := tier.NewOnCluster(c, nil).Bind(remote.Space{Name: "n", Schema: 1})
		before := tr.Moves()
		for range 3 {
			if held, err := tr.Get(t.Context(), []string{"word"}); err != nil || !held[0].Absent() {
				t.Fatalf("%+v, %v", held, err)
			}
			if _, err := tr.Drop(t.Context(), []remote.Drop{{Key: "word"}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := tr.Moves() - before; n != 0 {
			t.Errorf("%d changes of server while a slot is being moved, want 0", n)
		}
		c.all[1].passing = false
		if _, err := tr.Get(t.Context(), []string{"word"}); err != nil {
			t.Fatal(err)
		}
		if n := tr.Moves() - before; n != 1 {
			t.Errorf("%d changes of server when the slot has been moved, want 1", n)
		}
	})
}

// TestServerThatCouldNotBeAskedIsAskedAtTheNextDrop: an instance that only drops has no other way
// to hear of another server.
func TestServerThatCouldNotBeAskedIsAskedAtTheNextDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, state := false, stateE
		s := &stub{opened: 1}
		s.answer = func(command string) string {
			switch {
			case !isNamespace(command):
				return ":1\r\n"
			case silent:
				return ""
			}
			return state
		}
		tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		drop := func() {
			t.Helper()
			if _, err := tr.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
				t.Fatal(err)
			}
		}
		drop()
		before := tr.Moves()
		s.opened, silent, state = 2, true, stateF
		drop()
		if n := tr.Moves() - before; n != 0 {
			t.Errorf("%d changes of server without an answer", n)
		}
		silent = false
		time.Sleep(layout.Age)
		drop()
		if n := tr.Moves() - before; n != 1 {
			t.Errorf("%d changes of server, want 1", n)
		}
	})
}

// TestFirstWriteIsNoChangeOfServer: the first write reads the first namespace state, for its token.
// If that counted as a change of server, the write would be sent again, and the repetition could
// take the value that the write has stored.
func TestFirstWriteIsNoChangeOfServer(t *testing.T) {
	s := &stub{opened: 1, answer: func(command string) string {
		if isNamespace(command) {
			return stateE
		}
		return ":1\r\n"
	}}
	tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
	before := tr.Moves()
	if _, err := tr.Drop(t.Context(), []remote.Drop{{Key: "k", Token: time.Second}}); err != nil {
		t.Fatal(err)
	}
	if n := tr.Moves() - before; n != 0 {
		t.Errorf("%d changes of server", n)
	}
}

// TestFirstDropIsNoChangeOfServer: the first state comes before the first drop. A state from after it
// may be of another server, so all reads of that moment would pass L2 by, and load once more.
func TestFirstDropIsNoChangeOfServer(t *testing.T) {
	for _, keys := range [][]string{{"k"}, {"k", "l"}} {
		var sent []bool
		s := &stub{opened: 1, answer: func(command string) string {
			sent = append(sent, isNamespace(command))
			if isNamespace(command) {
				return stateE
			}
			return ":1\r\n"
		}}
		tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		var drops []remote.Drop
		for _, k := range keys {
			drops = append(drops, remote.Drop{Key: k})
		}
		if _, err := tr.Drop(t.Context(), drops); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Acquire(t.Context(), []remote.Request{{Key: "k"}}, time.Second); err != nil {
			t.Fatal(err)
		}
		if n := tr.Moves(); n != 0 || !sent[0] {
			t.Errorf("%d changes of server after a drop of %d keys, want 0; the state was read first: %t, want true", n, len(drops), sent[0])
		}
	}
}

// TestServerOfAFirstDropWithoutAStateIsNotTakenForTheOneOfTheFirstState: that drop is repeated then.
func TestServerOfAFirstDropWithoutAStateIsNotTakenForTheOneOfTheFirstState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, silent := 0, true
		s := &stub{opened: 1, answer: func(command string) string {
			switch {
			case !isNamespace(command):
				return ":1\r\n"
			case silent:
				asked++
				return ""
			}
			return stateE
		}}
		tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		for range 10 {
			if _, err := tr.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
				t.Fatal(err)
			}
		}
		if asked != 1 {
			t.Errorf("ten drops at once have asked a silent server %d times for the state, want 1", asked)
		}
		silent = false
		time.Sleep(layout.Age)
		if _, err := tr.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		if n := tr.Moves(); n != 1 {
			t.Errorf("%d changes of server with the first state, want 1", n)
		}
	})
}

// TestConnectionOpenedDuringTheFirstDropIsNoticed: the drop may have been made by the server of the
// connection before it, which the state is of, too.
func TestConnectionOpenedDuringTheFirstDropIsNoticed(t *testing.T) {
	s := &stub{opened: 1}
	s.answer = func(command string) string {
		switch {
		case !isNamespace(command):
			s.opened = 2
			return ":1\r\n"
		case s.opened == 2:
			return stateF
		}
		return stateE
	}
	tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
	if _, err := tr.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	if n := tr.Moves(); n != 1 {
		t.Errorf("%d changes of server, want 1", n)
	}
}

// TestFirstContactWithANodeIsNoChangeOfServer: a node that serves the same slots as before the first
// drop has not taken the place of another one.
func TestFirstContactWithANodeIsNoChangeOfServer(t *testing.T) {
	slots := func(all []*node, _ time.Time) { all[1].home.Serves(time.Now()) }
	older := func(all []*node, begun time.Time) {
		all[1].home.Serves(time.Now())
		all[1].home.Serves(begun)
	}
	for _, c := range []struct {
		name string
		drop func(tr *tier.Tier) error
		// after changes the nodes when the first drop has been made; begun is from before it.
		after func(all []*node, begun time.Time)
		want  uint64
	}{
		{"a drop", dropFirst, nil, 0},
		{"a drop by a value", putFirst, nil, 0},
		{"a drop, and slots that went to the node", dropFirst, slots, 1},
		{"a drop by a value, and slots that went to the node", putFirst, slots, 1},
		{"a drop, and older news of the node after newer ones", dropFirst, older, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := spread()
				begun := time.Now()
				for _, d := range n.all {
					d.home.Serves(begun)
				}
				time.Sleep(time.Second)
				tr := tier.NewOnCluster(n, nil).Bind(remote.Space{Name: "n", Schema: 1})
				if err := c.drop(tr); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if c.after != nil {
					c.after(n.all, begun)
				}
				before := tr.Moves()
				for range 2 {
					if _, err := tr.Get(t.Context(), []string{"at1"}); err != nil {
						t.Fatal(err)
					}
				}
				if got := tr.Moves() - before; got != c.want {
					t.Errorf("%d changes of server at the first contact with a node, want %d", got, c.want)
				}
				n.all[1].run = "another"
				n.all[1].opened++
				if _, err := tr.Get(t.Context(), []string{"at1"}); err != nil {
					t.Fatal(err)
				}
				if got := tr.Moves() - before; got != c.want+1 {
					t.Errorf("%d changes of server after a restart of the node, want %d", got, c.want+1)
				}
			})
		})
	}
}

func dropFirst(tr *tier.Tier) error {
	_, err := tr.Drop(context.Background(), []remote.Drop{{Key: "at0"}})
	return err
}

func putFirst(tr *tier.Tier) error {
	_, err := tr.Put(context.Background(), []remote.Put{{Key: "at0", Left: time.Minute, Lease: remote.Lease{Token: 7}, Drops: true}})
	return err
}

// spread returns a cluster of two nodes, of which each serves the keys with its number.
func spread() *nodes {
	c := newNodes(2, func(_ int, command string) string {
		if strings.HasPrefix(command, "EVAL") {
			return ":1\r\n"
		}
		return value("run1")
	})
	c.thought = func(key string) int {
		if strings.Contains(key, "at1") {
			return 1
		}
		return 0
	}
	return c
}

// TestRestartDuringAFirstDropWithoutAReportIsNoticed: another call reads the first report before the
// drop has ended, and after the restart.
func TestRestartDuringAFirstDropWithoutAReportIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := spread()
		for _, d := range n.all {
			d.home.Serves(time.Now())
		}
		time.Sleep(time.Second)
		tr := tier.NewOnCluster(n, nil).Bind(remote.Space{Name: "n", Schema: 1})
		silent := true
		answer := n.all[1].answer
		n.all[1].answer = func(command string) string {
			switch name, _, _ := strings.Cut(command, " "); {
			case name == "INFO" && silent:
				time.Sleep(time.Millisecond)
				return ""
			case strings.HasPrefix(name, "EVAL") && silent:
				silent = false
				reply := answer(command)
				n.all[1].run = "another"
				n.all[1].opened++
				if _, err := tr.Get(t.Context(), []string{"at1"}); err != nil {
					t.Error(err)
				}
				return reply
			}
			return answer(command)
		}
		if _, err := tr.Drop(t.Context(), []remote.Drop{{Key: "at1"}}); err != nil {
			t.Fatal(err)
		}
		if got := tr.Moves(); got != 1 {
			t.Errorf("%d changes of server, want 1", got)
		}
	})
}

// TestDropAtANodeIsMadeAfterItsReport: a node that restarts between a drop and its first report
// would not show in the report. Without a report, the first one counts as a change of server.
func TestDropAtANodeIsMadeAfterItsReport(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, keys := range [][]string{{"at1"}, {"at1", "at1 too"}} {
			synctest.Test(t, func(t *testing.T) {
				n := spread()
				var sent []string
				quiet := silent
				answer := n.all[1].answer
				n.all[1].answer = func(command string) string {
					name, _, _ := strings.Cut(command, " ")
					if sent = append(sent, name); quiet && name == "INFO" {
						return ""
					}
					return answer(command)
				}
				for _, d := range n.all {
					d.home.Serves(time.Now())
				}
				time.Sleep(time.Second)
				tr := tier.NewOnCluster(n, nil).Bind(remote.Space{Name: "n", Schema: 1})
				drops := make([]remote.Drop, len(keys))
				for i, k := range keys {
					drops[i].Key = k
				}
				if _, err := tr.Drop(t.Context(), drops); err != nil {
					t.Fatal(err)
				}
				if sent[0] != "INFO" {
					t.Errorf("%d keys: sent %v, want a question for the report first", len(keys), sent)
				}
				quiet = false
				n.all[1].run = "another"
				n.all[1].opened++
				before := tr.Moves()
				if _, err := tr.Get(t.Context(), []string{"at1"}); err != nil {
					t.Fatal(err)
				}
				if got := tr.Moves() - before; got != 1 {
					t.Errorf("%d keys, silent %t: %d changes of server after a restart, want 1", len(keys), silent, got)
				}
			})
		}
	}
}
