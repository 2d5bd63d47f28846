package health

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/journal"
)

// Servers is the health of the servers of one client, as the log of the process has it. All
// caches of the client find a server well or not, each for itself; the log has one line
// for them all. Use [NewServers] to make one.
//
// Invariant: a line says that a state has begun when the first cache finds it, and that it
// has ended when no cache does.
type Servers struct {
	name string

	mu     sync.Mutex // guards below
	began  time.Time
	caches map[any]string
	found  map[finding]*found
}

// finding is a state of a server.
type finding struct{ server, state string }

// found says which caches find a state, and its lines.
type found struct {
	by    map[any]bool
	lines Lines
}

// NewServers returns the health of servers that are well. Their names are for people, and
// have no credentials.
func NewServers(names ...string) *Servers {
	return &Servers{name: strings.Join(names, ", "), began: time.Now(), caches: map[any]string{}, found: map[finding]*found{}}
}

// Of returns the health of the servers of a tier or bus that knows it, or else that of
// servers which no other cache knows.
func Of(client any) *Servers {
	if c, ok := client.(interface{ Health() *Servers }); ok {
		return c.Health()
	}
	return NewServers()
}

// Name returns the name of the server, or of all; empty if there is none.
func (s *Servers) Name() string { return s.name }

// Join adds a cache with a name. It leaves by Leave, with the same value.
func (s *Servers) Join(cache any, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches[cache] = name
}

// Leave removes a cache with all that it has found.
func (s *Servers) Leave(cache any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.caches, cache)
	for _, f := range s.found {
		s.leave(f, cache)
	}
}

// leave removes a cache from those that find f, and reports whether that ends the state in
// the log. s.mu is held.
func (s *Servers) leave(f *found, cache any) bool {
	if f == nil || !f.by[cache] {
		return false
	}
	delete(f.by, cache)
	return len(f.by) == 0 && f.lines.Next(false, s.now()) == Ends
}

// Caches returns the names of the caches, in order.
func (s *Servers) Caches() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range s.caches {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// Begins notes that a cache finds a server in a state, and reports whether the log has to
// say so.
func (s *Servers) Begins(cache any, server, state string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := finding{server, state}
	f := s.found[at]
	if f == nil {
		f = &found{by: map[any]bool{}}
		s.found[at] = f
	}
	f.by[cache] = true
	return f.lines.Next(true, s.now()) != Nothing
}

// Ends notes that a cache finds a server in a state no more, and reports whether the log
// has to say so.
func (s *Servers) Ends(cache any, server, state string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leave(s.found[finding{server, state}], cache)
}

// Write writes a line about a server, or about all for an empty name, to the logger of a
// cache: an event of the cache, and in the log if say is true. It names all caches.
func (s *Servers) Write(to *slog.Logger, say bool, level slog.Level, cache, server, text string, more ...any) {
	ctx := context.Background()
	if !say {
		ctx = journal.Alone()
	}
	about := []any{slog.String("cache", cache)}
	if all := s.Caches(); all != cache {
		about = []any{slog.String("caches", all)}
	}
	if server = cmp.Or(server, s.name); server != "" {
		about = append(about, slog.String("server", server))
	}
	to.Log(ctx, level, text, append(about, more...)...)
}

func (s *Servers) now() int64 { return int64(time.Since(s.began)) }
