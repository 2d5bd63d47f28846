package stage

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// store is the server behind L2 and the bus.
type store struct {
	addr  string
	name  string
	close func()
}

// openStore returns a server at addr; if that is empty, a redis-server that it starts, or, if
// this machine has none, one inside this process, which is slower.
func openStore(ctx context.Context, addr string) (*store, error) {
	if addr != "" {
		c, err := dial(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("stage: Redis: %w", err)
		}
		c.Close()
		return &store{addr: addr, name: "Redis at " + addr, close: func() {}}, nil
	}
	if path, err := exec.LookPath("redis-server"); err == nil {
		if s, err := startRedis(ctx, path); err == nil {
			return s, nil
		}
	}
	return embedded()
}

// startRedis starts a redis-server that keeps nothing, on a free port.
func startRedis(ctx context.Context, path string) (*store, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	l.Close()
	dir, err := os.MkdirTemp("", "strata-stage-")
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(context.WithoutCancel(ctx), path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir) //nolint:gosec // the server of this machine
	if err = c.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s := &store{addr: addr, name: "redis-server on " + addr, close: func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		os.RemoveAll(dir)
	}}
	for range 100 {
		if conn, e := dial(ctx, addr); e == nil {
			conn.Close()
			return s, nil
		}
		select {
		case <-ctx.Done():
			s.close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.close()
	return nil, fmt.Errorf("stage: redis-server does not listen on %s", addr)
}

// embedded starts a server inside this process.
func embedded() (*store, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var clock sync.WaitGroup
	clock.Go(func() { runClock(done, m) })
	return &store{addr: m.Addr(), name: "a Redis in this process, slower than a real one", close: func() {
		close(done)
		clock.Wait()
		m.Close()
	}}, nil
}

// runClock advances the clock of the embedded server, which does not do so itself.
func runClock(done <-chan struct{}, server *miniredis.Miniredis) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-done:
			return
		case now := <-t.C:
			server.FastForward(now.Sub(last))
			last = now
		}
	}
}
