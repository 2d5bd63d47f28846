// Package roster keeps the servers of a client. The list may be replaced while calls run.
// It knows no protocol: the owner opens and closes nodes.
//
// A node is in the present [List], or leaving. Then the calls begun on it go on to their
// end, and it is closed when it is idle. Invariant: a List never changes, so a call that
// looks at one sees one; a server that stays keeps its node; a number stands for one server
// of one list.
package roster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/wire/pool"
)

// Node is one server with its connections.
type Node interface {
	comparable
	// Name is the name of the server in the list.
	Name() string
	// Renew closes all connections: idle ones at once, used ones when they come back.
	Renew()
	// Stats are the counters of its pool.
	Stats() pool.Stats
	// Close closes all connections, and waits for the goroutines of the node.
	Close()
}

// List is the servers at one time.
type List[N Node] struct {
	// All are the nodes, in the order in which the list names them.
	All []N
	// Ring says which position in All a key belongs to.
	Ring *Ring
	// First is the number of the first server. No two lists have a number in common.
	First  int
	places []Server
}

// Home returns the position of the server of a key.
func (l *List[N]) Home(key string) int {
	if len(l.All) == 1 {
		return 0
	}
	return l.Ring.Pick(key)
}

// Names returns the names of the servers.
func (l *List[N]) Names() []string {
	names := make([]string, len(l.All))
	for i, n := range l.All {
		names[i] = n.Name()
	}
	return names
}

// find returns the position of a name, or -1.
func (l *List[N]) find(name string) int {
	return slices.IndexFunc(l.All, func(n N) bool { return n.Name() == name })
}

// Roster is the present list, and the nodes that leave. Make it with [New].
type Roster[N Node] struct {
	mode    Mode
	open    func(name string) N
	now     atomic.Pointer[List[N]]
	ctx     context.Context
	cancel  context.CancelFunc
	leaving sync.WaitGroup

	mu     sync.Mutex // guards below; never held while a node is closed
	closed bool
	before *List[N] // calls may still run on its nodes
	left   map[N]bool
	past   pool.Stats // of closed nodes
}

// New returns the roster of servers on a ring of a mode. open returns the node of a server,
// and opens no connection.
func New[N Node](mode Mode, r *Ring, servers []Server, open func(name string) N) *Roster[N] {
	s := &Roster[N]{mode: mode, open: open, left: map[N]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.now.Store(s.list(r, servers, &List[N]{}))
	return s
}

// list returns a list, which takes nodes over from old.
func (s *Roster[N]) list(r *Ring, servers []Server, old *List[N]) *List[N] {
	l := &List[N]{Ring: r, places: servers, First: old.First + len(old.All)}
	for _, server := range servers {
		if at := old.find(server.Address); at >= 0 {
			l.All = append(l.All, old.All[at])
		} else {
			l.All = append(l.All, s.open(server.Address))
		}
	}
	return l
}

// Now returns the present list.
func (s *Roster[N]) Now() *List[N] { return s.now.Load() }

// Numbered returns the list in which a server has a number, and its position there. ok is
// false if that list was replaced twice.
func (s *Roster[N]) Numbered(server int) (l *List[N], at int, ok bool) {
	if l = s.now.Load(); server < l.First {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l = s.before; l == nil || server < l.First {
			return nil, 0, false
		}
	}
	at = server - l.First
	return l, at, at < len(l.All)
}

// Replace makes another list the present one, unless it places all keys as the present one
// does. It reports false after Close.
func (s *Roster[N]) Replace(r *Ring, servers []Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	old := s.now.Load()
	if slices.Equal(s.alike(old.places), s.alike(servers)) {
		return true
	}
	l := s.list(r, servers, old)
	s.before = old
	s.now.Store(l)
	for _, n := range old.All {
		if l.find(n.Name()) < 0 {
			s.left[n] = true
			s.leaving.Go(func() { s.leave(n) })
		}
	}
	return true
}

// alike returns servers so that equal ones place all keys alike: with Modula the order counts.
func (s *Roster[N]) alike(servers []Server) []Server {
	servers = slices.Clone(servers)
	for i := range servers {
		servers[i].Weight = max(servers[i].Weight, 1)
	}
	if s.mode != Modula {
		slices.SortFunc(servers, func(a, b Server) int { return strings.Compare(a.Address, b.Address) })
	}
	return servers
}

// lookEvery is the time between two looks at a node that leaves. Calls take a connection
// soon after they chose the node, well before the second look.
const lookEvery = time.Second

// leave closes a node when two looks in a row have found it idle.
func (s *Roster[N]) leave(n N) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for idle := 0; idle < 2 && s.ctx.Err() == nil; {
		n.Renew()
		select {
		case <-s.ctx.Done():
		case <-look.C:
		}
		if is := n.Stats(); is.Open+is.Waiting == 0 {
			idle++
		} else {
			idle = 0
		}
	}
	n.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, n)
	s.past.Add(n.Stats())
}

// Stats returns the counters and the state of the pools of all nodes, also of closed
// ones.
func (s *Roster[N]) Stats() pool.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.past
	for n := range s.left {
		all.Add(n.Stats())
	}
	for _, n := range s.now.Load().All {
		all.Add(n.Stats())
	}
	return all
}

// Close closes all nodes, and waits for the goroutines of the roster. From then on the list
// stays.
func (s *Roster[N]) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	for _, n := range s.now.Load().All {
		n.Close()
	}
	s.leaving.Wait()
}
