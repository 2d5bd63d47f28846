package servers

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/strata-cache/strata/redis"
)

// RedisServer is a redis-server that keeps nothing on disk. [RunRedis] makes
// one. Its methods are for one goroutine at a time.
type RedisServer struct {
	// Addr is host:port. It stays the same over Restart.
	Addr string
	// Socket is the path of its unix socket.
	Socket string

	args []string
	port string
	dir  string
	p    *Process
}

// RunRedis starts a redis-server with further arguments, and waits until it
// answers. Close ends it.
func RunRedis(args ...string) (*RedisServer, error) {
	dir, err := os.MkdirTemp("", "strata-redis-")
	if err != nil {
		return nil, err
	}
	s := &RedisServer{args: args, dir: dir, Socket: filepath.Join(dir, "s")}
	for range 5 { // another process may take the port first
		if err = s.listenAnywhere(); err == nil {
			return s, nil
		}
	}
	s.Close()
	return nil, err
}

func (s *RedisServer) listenAnywhere() error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	s.port = strconv.Itoa(port)
	s.Addr = net.JoinHostPort("127.0.0.1", s.port)
	return s.Restart()
}

// Restart ends the server, if it runs, and starts it again, empty, at the same
// address.
func (s *RedisServer) Restart() error {
	program, err := Program("redis-server", "redis-server")
	if err != nil {
		return err
	}
	s.Kill()
	dir, err := os.MkdirTemp(s.dir, "run-") // a restarted server finds no data
	if err != nil {
		return err
	}
	cmd := exec.Command(program, append([]string{
		"--bind", "127.0.0.1", "--port", s.port, "--unixsocket", s.Socket,
		"--save", "", "--appendonly", "no", "--dir", dir,
	}, s.args...)...)
	cmd.Dir = dir
	if s.p, err = Start(cmd); err != nil {
		return err
	}
	return s.p.Await(s.ping)
}

func (s *RedisServer) ping() error {
	c, err := s.Open(func(o *redis.Options) { o.Network, o.Addr = "unix", s.Socket })
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return c.Ping(ctx)
}

// Open returns a client of the server, with the defaults of its package but for
// changes of its options. The caller closes it.
func (s *RedisServer) Open(changes ...func(*redis.Options)) (*redis.Client, error) {
	o := redis.Options{Addr: s.Addr}
	for _, change := range changes {
		change(&o)
	}
	return redis.New(o)
}

// Kill ends the server at once. Its data is lost.
func (s *RedisServer) Kill() {
	if s.p != nil {
		s.p.Kill()
	}
}

// Close ends the server and removes its directory.
func (s *RedisServer) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// Pid returns the number of the server's process.
func (s *RedisServer) Pid() int { return s.p.Pid() }

// Version returns the server's version, as it tells it to the client c.
func (s *RedisServer) Version(ctx context.Context, c *redis.Client) string {
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
