package servers

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/strata-cache/strata/redis"
)

// RedisServer is a redis-server that keeps nothing on disk. [RunRedis] makes
// one. Its methods are for one goroutine at a time.
type RedisServer struct {
	server
	// Socket is the path of its unix socket.
	Socket string
	line   []string // the program, and the words before args; nil for the machine's
}

// RunRedis starts a redis-server with further arguments, and waits until it
// answers. Close ends it.
func RunRedis(args ...string) (*RedisServer, error) {
	return runRedis(nil, args)
}

// RunNewerRedis is RunRedis for a newer Redis or Valkey. It returns ErrNoNewer if that cannot be
// had.
func RunNewerRedis(n Newer, args ...string) (*RedisServer, error) {
	line, err := n.Line()
	if err != nil {
		return nil, err
	}
	return runRedis(line, args)
}

func runRedis(line, args []string) (*RedisServer, error) {
	s := &RedisServer{server: server{args: args}, line: line}
	if err := s.begin("redis", s.Restart); err != nil {
		return nil, err
	}
	return s, nil
}

// Restart ends the server, if it runs, and starts it again, empty, at the same
// address.
func (s *RedisServer) Restart() error {
	line := s.line
	if line == nil {
		program, err := Program("redis-server", "redis-server")
		if err != nil {
			return err
		}
		line = []string{program}
	}
	s.Kill()
	s.Socket = filepath.Join(s.Dir, "s")
	dir, err := os.MkdirTemp(s.Dir, "run-") // a restarted server finds no data
	if err != nil {
		return err
	}
	args := []string{
		"--bind", "127.0.0.1", "--port", s.port, "--unixsocket", s.Socket,
		"--save", "", "--appendonly", "no", "--dir", dir,
	}
	cmd := exec.Command(line[0], slices.Concat(line[1:], args, s.args)...)
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
