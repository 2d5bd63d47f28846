package observe

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// ServerHealth is the health of the servers of one client, as the log of the process has it. All
// caches of the client find a server well or not, each for itself; the log has one line
// for them all. Use [NewServerHealth] to make one.
//
// Invariant: a line says that a state has begun when the first cache finds it, and that it
// has ended when no cache does.
type ServerHealth struct {
	mu     sync.Mutex // guards below
	name   string
	began  time.Time
	caches map[*Member]bool
	found  map[finding]*found
}

// finding is a state of a server.
type finding struct{ server, state string }

// found says which caches find a state, and its lines.
type found struct {
	by    map[*Member]bool
	lines LogLines
}

// NewServerHealth returns the health of healthy servers. Their names are for people, and have
// no credentials.
func NewServerHealth(names ...string) *ServerHealth {
	return &ServerHealth{name: strings.Join(names, ", "), began: time.Now(), caches: map[*Member]bool{}, found: map[finding]*found{}}
}

// ServerHealthOf returns the health of the servers of a tier or bus that knows it. Otherwise it
// returns a new Servers, which no other cache shares.
func ServerHealthOf(client any) *ServerHealth {
	if c, ok := client.(interface{ Health() any }); ok { // a public type, which cannot name Servers
		if s, ok := c.Health().(*ServerHealth); ok {
			return s
		}
	}
	return NewServerHealth()
}

// Name returns the name of the server, or of all; empty if there is none.
func (s *ServerHealth) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// Rename changes the names: the client has other servers.
func (s *ServerHealth) Rename(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name = strings.Join(names, ", ")
}

// Member is a cache of the client.
type Member struct {
	of   *ServerHealth
	name string
}

// Join adds a cache with a name.
func (s *ServerHealth) Join(name string) *Member {
	m := &Member{s, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches[m] = true
	return m
}

// Leave removes the cache with all states that it found.
func (m *Member) Leave() {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	delete(m.of.caches, m)
	for _, f := range m.of.found {
		m.forget(f)
	}
}

// forget removes m from the members that find f, and reports whether that ends the state in the
// log. The lock of the servers is held.
func (m *Member) forget(f *found) bool {
	if f == nil || !f.by[m] {
		return false
	}
	delete(f.by, m)
	return len(f.by) == 0 && f.lines.Next(false, m.of.now()) == Ends
}

// Caches returns the names of the caches, in order.
func (s *ServerHealth) Caches() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for m := range s.caches {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// Begins notes that the cache finds a server in a state, and reports whether the log has to
// say so.
func (m *Member) Begins(server, state string) bool {
	s := m.of
	s.mu.Lock()
	defer s.mu.Unlock()
	at := finding{server, state}
	f := s.found[at]
	if f == nil {
		f = &found{by: map[*Member]bool{}}
		s.found[at] = f
	}
	f.by[m] = true
	return f.lines.Next(true, s.now()) != Nothing
}

// Ends notes that the cache finds a server in a state no more, and reports whether the log
// has to say so.
func (m *Member) Ends(server, state string) bool {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	return m.forget(m.of.found[finding{server, state}])
}

// Write writes a line about a server, or about all for an empty name, to the logger of the
// cache: an event of the cache, and in the log if say is true. It names all caches.
func (m *Member) Write(to *slog.Logger, say bool, level slog.Level, server, text string, more ...any) {
	ctx := context.Background()
	if !say {
		ctx = JournalOnly()
	}
	about := []any{slog.String("cache", m.name)}
	if all := m.of.Caches(); all != m.name {
		about = []any{slog.String("caches", all)}
	}
	if server = cmp.Or(server, m.of.Name()); server != "" {
		about = append(about, slog.String("server", server))
	}
	to.Log(ctx, level, text, append(about, more...)...)
}

func (s *ServerHealth) now() int64 { return int64(time.Since(s.began)) }
