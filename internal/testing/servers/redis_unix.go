//go:build unix

package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// Client returns a client, and closes it when the test ends.
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

// Stop pauses the process. On Linux it returns when none of its threads runs any more: the
// signal alone lets a thread that runs on another processor answer for a moment.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil || runtime.GOOS != "linux" {
		return err
	}
	return p.Await(p.stopped)
}

// stopped returns nil if no thread of the process runs.
func (p *Process) stopped() error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
	if err != nil {
		return err
	}
	for _, t := range threads {
		stat, err := os.ReadFile(t)
		if err != nil {
			return err
		}
		// The state follows the name of the program, which is in brackets.
		state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(state) == 0 || state[0] != 'T' {
			return fmt.Errorf("a thread is in the state %.1s", state)
		}
	}
	return nil
}
