//go:build unix

package servers

import (
	"syscall"
	"testing"

	"github.com/strata-cache/strata/redis"
)

// Redis is a RedisServer of a test: an operation that fails, fails the test.
// [StartRedis] makes one.
type Redis struct {
	*RedisServer
	t testing.TB
}

// StartRedis is RunRedis for a test. The server ends with the test.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	s, err := RunRedis(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &Redis{s, t}
}

// Client returns a client that is closed when the test ends.
func (r *Redis) Client(t testing.TB, changes ...func(*redis.Options)) *redis.Client {
	t.Helper()
	c, err := r.Open(changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Stop pauses the server: connections stay open and nothing answers. It is
// continued, at the latest, when the test ends.
func (r *Redis) Stop() {
	r.t.Helper()
	if err := r.p.Stop(); err != nil {
		r.t.Fatal(err)
	}
}

// Continue ends a pause.
func (r *Redis) Continue() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.p.Signal(s); err != nil {
		r.t.Fatalf("signal %v to redis-server: %v", s, err)
	}
}

// Restart starts the server again, empty, after Kill.
func (r *Redis) Restart() {
	r.t.Helper()
	if err := r.RedisServer.Restart(); err != nil {
		r.t.Fatal(err)
	}
}
