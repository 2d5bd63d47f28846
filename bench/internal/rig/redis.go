package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/strata-cache/strata/redis"
)

// ErrNoRedis is returned when redis-server is not installed.
var ErrNoRedis = errors.New("rig: redis-server is not in PATH: install Redis, or run as root on a system with apt-get")

// Redis is a server with nothing in it, on a free port of the loopback
// interface and on a unix socket. It keeps nothing on disk.
type Redis struct {
	// Addr is its host:port.
	Addr string
	// Socket is the path of its unix socket.
	Socket string

	cmd *exec.Cmd
	dir string
}

// InstallRedis installs redis-server if it is missing, this process is root
// and there is an apt-get.
func InstallRedis(ctx context.Context) error {
	if _, err := exec.LookPath("redis-server"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return ErrNoRedis
	}
	cmd := exec.CommandContext(ctx, "apt-get", "install", "-y", "--no-install-recommends", "redis-server")
	cmd.Env = append(os.Environ(), "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive") // starts no service
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rig: apt-get install redis-server: %w\n%s", err, out)
	}
	return nil
}

// StartRedis starts a server. It returns ErrNoRedis if there is no program
// for it. The server ends with Stop, or with ctx.
func StartRedis(ctx context.Context) (*Redis, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoRedis
	}
	for range 3 { // the port may be taken between asking and starting
		var s *Redis
		if s, err = startOnce(ctx, program); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startOnce(ctx context.Context, program string) (*Redis, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "strata-bench-")
	if err != nil {
		return nil, err
	}
	s := &Redis{Addr: addr.String(), Socket: filepath.Join(dir, "redis.sock"), dir: dir}
	s.cmd = exec.CommandContext(ctx, program, "--bind", "127.0.0.1", "--port", strconv.Itoa(addr.Port),
		"--unixsocket", s.Socket, "--save", "", "--appendonly", "no", "--dir", dir)
	var log bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("rig: redis-server does not answer: %w\n%s", err, &log)
	}
	return s, nil
}

// await waits until the server answers.
func (s *Redis) await(ctx context.Context) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// Client returns a client of the server, with the defaults of its package. It
// is the caller's to close.
func (s *Redis) Client() (*redis.Client, error) {
	return redis.New(redis.Options{Addr: s.Addr})
}

// Version returns the server's version.
func (s *Redis) Version(ctx context.Context, c *redis.Client) string {
	info, err := c.Do(ctx, "INFO", "server").String()
	if err != nil {
		return "unknown"
	}
	for line := range bytes.Lines([]byte(info)) {
		if v, ok := bytes.CutPrefix(line, []byte("redis_version:")); ok {
			return string(bytes.TrimSpace(v))
		}
	}
	return "unknown"
}

// Stop ends the server and removes its directory.
func (s *Redis) Stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}
