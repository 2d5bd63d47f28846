//go:build unix

package servers

import (
	"errors"
	"syscall"
	"testing"

	"github.com/strata-cache/strata/memcached"
)

// Memcached is a MemcachedServer of a test: an operation that fails, fails the test.
// [StartMemcached] makes one.
type Memcached struct {
	*MemcachedServer
	t testing.TB
}

// StartMemcached is RunMemcached for a test. The server ends with the test.
func StartMemcached(t testing.TB, args ...string) *Memcached {
	t.Helper()
	s, err := RunMemcached(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &Memcached{s, t}
}

// StartNewerMemcached is StartMemcached with the memcached of a newer Debian release. It
// skips the test if that cannot be had.
func StartNewerMemcached(t testing.TB, args ...string) *Memcached {
	t.Helper()
	s, err := RunNewerMemcached(args...)
	switch {
	case errors.Is(err, ErrNoNewer):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &Memcached{s, t}
}

// Client returns a client, and closes it when the test ends.
func (m *Memcached) Client(t testing.TB, changes ...func(*memcached.Options)) *memcached.Client {
	t.Helper()
	c, err := m.Open(changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Stop pauses the server: connections stay open and nothing answers. It is
// continued, at the latest, when the test ends.
func (m *Memcached) Stop() {
	m.t.Helper()
	if err := m.p.Stop(); err != nil {
		m.t.Fatal(err)
	}
}

// Continue ends a pause.
func (m *Memcached) Continue() { m.signal(syscall.SIGCONT) }

// Quit ends the server with its items written to the file of the argument -e, from which
// Restart takes them.
func (m *Memcached) Quit() {
	m.signal(syscall.SIGUSR1)
	<-m.p.exited
}

func (m *Memcached) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.p.Signal(s); err != nil {
		m.t.Fatalf("signal %v to memcached: %v", s, err)
	}
}

// Restart starts the server again, empty, after Kill.
func (m *Memcached) Restart() {
	m.t.Helper()
	if err := m.MemcachedServer.Restart(); err != nil {
		m.t.Fatal(err)
	}
}
