//go:build unix

package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/strata-cache/strata/redis"
)

// Redis is a RedisServer of a test: an operation that fails, fails the test.
// [StartRedis] makes one.
type Redis struct {
	*RedisServer
	tested
}

// StartRedis is RunRedis for a test. The server ends with the test.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	s, err := RunRedis(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &Redis{s, tested{&s.server, t}}
}

// StartNewerRedis is StartRedis with a newer Redis or Valkey. It skips the test if that cannot be
// had.
func StartNewerRedis(t testing.TB, n Newer, args ...string) *Redis {
	t.Helper()
	s, err := RunNewerRedis(n, args...)
	orSkip(t, err)
	t.Cleanup(s.Close)
	return &Redis{s, tested{&s.server, t}}
}

// orSkip skips the test if a newer server cannot be had. Any other error fails it.
func orSkip(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, ErrNoNewer):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// Client returns a client, and closes it when the test ends. Its calls have five seconds, as the
// machine may be busy.
func (r *Redis) Client(t testing.TB, changes ...func(*redis.Options)) *redis.Client {
	t.Helper()
	c, err := r.Open(append([]func(*redis.Options){func(o *redis.Options) { o.Timeout = 5 * time.Second }}, changes...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Restart starts the server again, empty, after Kill.
func (r *Redis) Restart() {
	r.t.Helper()
	if err := r.RedisServer.Restart(); err != nil {
		r.t.Fatal(err)
	}
}

// tested is the server of a test: an operation that fails, fails the test.
type tested struct {
	s *server
	t testing.TB
}

// Stop pauses the server: connections stay open and nothing answers. It is
// continued, at the latest, when the test ends.
func (d tested) Stop() {
	d.t.Helper()
	if err := d.s.p.Stop(); err != nil {
		d.t.Fatal(err)
	}
}

// Continue ends a pause.
func (d tested) Continue() { d.signal(syscall.SIGCONT) }

func (d tested) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.s.p.Signal(s); err != nil {
		d.t.Fatalf("signal %v to %s: %v", s, d.s.p.cmd.Path, err)
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
