//go:build unix

package servers

import (
	"syscall"
	"testing"
	"time"

	"github.com/strata-cache/strata/memcached"
)

// Memcached is a MemcachedServer of a test: an operation that fails, fails the test.
// [StartMemcached] makes one.
type Memcached struct {
	*MemcachedServer
	tested
}

// StartMemcached is RunMemcached for a test. The server ends with the test.
func StartMemcached(t testing.TB, args ...string) *Memcached {
	t.Helper()
	s, err := RunMemcached(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &Memcached{s, tested{&s.server, t}}
}

// StartNewerMemcached is StartMemcached with the memcached of a newer Debian release. It
// skips the test if that cannot be had.
func StartNewerMemcached(t testing.TB, args ...string) *Memcached {
	t.Helper()
	s, err := RunNewerMemcached(args...)
	orSkip(t, err)
	t.Cleanup(s.Close)
	return &Memcached{s, tested{&s.server, t}}
}

// Client returns a client, and closes it when the test ends. Its calls have five seconds, as the
// machine may be busy.
func (m *Memcached) Client(t testing.TB, changes ...func(*memcached.Options)) *memcached.Client {
	t.Helper()
	c, err := m.Open(append([]func(*memcached.Options){func(o *memcached.Options) { o.Timeout = 5 * time.Second }}, changes...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Quit ends the server with its items written to the file of the argument -e, from which
// Restart takes them.
func (m *Memcached) Quit() {
	m.signal(syscall.SIGUSR1)
	<-m.p.exited
}

// Restart starts the server again, empty, after Kill.
func (m *Memcached) Restart() {
	m.t.Helper()
	if err := m.MemcachedServer.Restart(); err != nil {
		m.t.Fatal(err)
	}
}
