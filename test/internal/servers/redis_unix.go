//go:build unix

package servers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/strata-cache/strata/redis"
)

// Redis is a redis-server that keeps nothing on disk. Its methods are for one
// goroutine at a time.
type Redis struct {
	// Addr is host:port. It stays the same over Restart.
	Addr string
	// Socket is the path of its unix socket.
	Socket string

	t    testing.TB
	args []string
	p    *process
}

// StartRedis starts a redis-server with further arguments, and waits until it
// answers.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	r := &Redis{t: t, args: args}
	var err error
	for range 5 { // another process may take the port first
		if err = r.start(freePort(t)); err == nil {
			return r
		}
	}
	t.Fatalf("redis-server: %v", err)
	return nil
}

func (r *Redis) start(port int) error {
	dir := r.t.TempDir()
	r.Addr, r.Socket = "127.0.0.1:"+strconv.Itoa(port), filepath.Join(dir, "s")
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--unixsocket", r.Socket,
		"--save", "", "--appendonly", "no", "--dir", dir,
	}, r.args...)
	cmd := exec.Command(program(r.t, "redis-server", "redis-server"), args...)
	cmd.Dir = dir
	if r.p != nil {
		r.p.kill() // it has not answered, or is to be restarted
	}
	p, err := start(r.t, cmd)
	if err != nil {
		return err
	}
	if r.p == nil {
		// Once, and not for each process: caches that the test made before a
		// Restart are closed while there is a server.
		r.t.Cleanup(func() { r.p.kill() })
	}
	r.p = p
	return p.await(func() error {
		c, err := redis.New(redis.Options{Network: "unix", Addr: r.Socket})
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Ping(ctx)
	})
}

// Client returns a client that is closed when the test ends.
func (r *Redis) Client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := redis.Options{Addr: r.Addr}
	for _, f := range change {
		f(&o)
	}
	c, err := redis.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Stop pauses the server: connections stay open and nothing answers. It is
// continued, at the latest, when the test ends.
func (r *Redis) Stop() { r.p.signal(syscall.SIGSTOP) }

// Continue ends a pause.
func (r *Redis) Continue() { r.p.signal(syscall.SIGCONT) }

// Kill ends the server at once. Its data is lost.
func (r *Redis) Kill() { r.p.kill() }

// Restart starts the server again, empty, after Kill.
func (r *Redis) Restart() {
	r.t.Helper()
	var port int
	if _, err := fmt.Sscanf(r.Addr, "127.0.0.1:%d", &port); err != nil {
		r.t.Fatal(err)
	}
	if err := r.start(port); err != nil {
		r.t.Fatalf("redis-server: %v", err)
	}
}
