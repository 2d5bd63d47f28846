package stage

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/strata-cache/strata/cmd/strata/embedded"
)

// store is the server behind L2 and the bus.
type store struct {
	addr  string
	name  string
	close func()
}

// openStore returns a server at addr. If addr is empty, it starts a redis-server. If this
// machine has none, it starts a server inside this process, which is slower.
func openStore(ctx context.Context, addr string) (*store, error) {
	if addr != "" {
		c, err := dial(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("stage: Redis: %w", err)
		}
		c.Close()
		return &store{addr: addr, name: "Redis at " + addr, close: func() {}}, nil
	}
	// A server that cannot start is no reason to fail: the stage also works with the server inside
	// this process.
	if path, err := exec.LookPath("redis-server"); err == nil {
		if s, err := startRedis(ctx, path); err == nil {
			return s, nil
		}
	}
	return inProcess()
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
	// A port that was free a moment ago is no guarantee, but redis-server does not choose one
	// itself: its port 0 means that it does not listen.
	l.Close()
	dir, err := os.MkdirTemp("", "strata-stage-")
	if err != nil {
		return nil, err
	}
	// The server writes nothing to its directory, which no server needs once it runs.
	defer os.RemoveAll(dir)
	c := exec.CommandContext(context.WithoutCancel(ctx), path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir) //nolint:gosec // the server of this machine
	c.SysProcAttr = ofThisProcess()
	end, err := startChild(c)
	if err != nil {
		return nil, err
	}
	// The server needs a moment until it listens: it is asked for up to five seconds.
	for range 100 {
		if conn, e := dial(ctx, addr); e == nil {
			conn.Close()
			return &store{addr: addr, name: "redis-server on " + addr, close: end}, nil
		}
		select {
		case <-ctx.Done():
			end()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	end()
	return nil, fmt.Errorf("stage: redis-server does not listen on %s", addr)
}

// startChild starts a server, which runs until end is called, or, on Linux, until this process
// is killed.
func startChild(c *exec.Cmd) (end func(), err error) {
	started := make(chan error, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		// Linux ends the server with the thread that started it: this goroutine keeps the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait() // it is killed
		}
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return func() {
		_ = c.Process.Kill()
		waiting.Wait()
	}, nil
}

// inProcess starts a server inside this process.
func inProcess() (*store, error) {
	addr, stop, err := embedded.Start()
	if err != nil {
		return nil, err
	}
	return &store{addr: addr, name: "a Redis in this process, slower than a real one", close: stop}, nil
}
