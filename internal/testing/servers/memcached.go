package servers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/strata-cache/strata/memcached"
)

// MemcachedServer is a memcached. [RunMemcached] makes one. Its methods are for one
// goroutine at a time.
type MemcachedServer struct {
	server
	line []string // the program, and the words before args
}

// RunMemcached starts a memcached with further arguments, and waits until it
// answers. Close ends it.
func RunMemcached(args ...string) (*MemcachedServer, error) {
	program, err := Program("memcached", "memcached")
	if err != nil {
		return nil, err
	}
	return runMemcached([]string{program}, args)
}

// RunNewerMemcached is RunMemcached for the memcached of a newer Debian release than the
// machine has. It returns ErrNoNewer if that cannot be had.
func RunNewerMemcached(args ...string) (*MemcachedServer, error) {
	line, err := NewerMemcached.Line()
	if err != nil {
		return nil, err
	}
	return runMemcached(line, args)
}

func runMemcached(line, args []string) (*MemcachedServer, error) {
	s := &MemcachedServer{server{args: args}, line}
	if err := s.begin("memcached", s.Restart); err != nil {
		return nil, err
	}
	return s, nil
}

// Restart ends the server, if it runs, and starts it again, empty, at the same
// address.
func (s *MemcachedServer) Restart() error {
	s.Kill()
	args := []string{"-l", "127.0.0.1", "-p", s.port, "-U", "0"}
	if os.Geteuid() == 0 { // it refuses to run as root
		args = append(args, "-u", "root")
	}
	args = slices.Concat(s.line[1:], args, s.args)
	cmd := exec.Command(s.line[0], args...)
	cmd.Dir = s.Dir
	var err error
	if s.p, err = Start(cmd); err != nil {
		return err
	}
	return s.p.Await(s.listens)
}

// listens looks whether connections are accepted.
func (s *MemcachedServer) listens() error {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// Open returns a client of the server, with the defaults of its package but for
// changes of its options. The caller closes it.
func (s *MemcachedServer) Open(changes ...func(*memcached.Options)) (*memcached.Client, error) {
	o := memcached.Options{Servers: []string{s.Addr}}
	for _, change := range changes {
		change(&o)
	}
	return memcached.New(o)
}

// Version returns the server's version, as it tells it to the client c.
func (s *MemcachedServer) Version(ctx context.Context, c *memcached.Client) string {
	all, err := c.Version(ctx)
	if err != nil {
		return "unknown"
	}
	return all[s.Addr]
}

// Path returns the path of a file in the server's directory.
func (s *MemcachedServer) Path(name string) string { return filepath.Join(s.Dir, name) }
