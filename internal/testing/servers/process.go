// Package servers starts real servers for tests and benchmarks, each as a
// process of its own on a free loopback port, with its data in a temporary
// directory. A missing server is installed from the distribution's packages if this
// process may install them. Otherwise the error is [ErrMissing], and a test fails: a
// skipped test proves nothing.
package servers

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout is how long a server may take to answer.
const startTimeout = 30 * time.Second

// Process is a running server. [Start] makes one. Its methods are safe for
// concurrent use.
type Process struct {
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{} // closed when the process has ended and was waited for
}

// logBuffer keeps the beginning of the output of a server.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const maxLog = 64 << 10

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p[:min(len(p), maxLog-l.b.Len())])
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Start runs cmd until Kill is called, or until this process ends where the
// system can see to that.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, log: &logBuffer{}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	DieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the process was killed, so that an error is expected
		close(p.exited)
	}()
	return p, nil
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process at once and waits for its end. It may be called again.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Await calls ready until it returns nil. It gives up when the process has
// ended, or after half a minute.
func (p *Process) Await(ready func() error) error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("servers: %s has ended:\n%s", p.cmd.Path, p.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("servers: %s does not answer: %w\n%s", p.cmd.Path, err, p.log)
		}
	}
}

// The ports of servers. Systems give higher ones to listeners and to connections that name none. One
// of those could take the port of a server that is killed and started again.
const (
	firstPort = 12_000
	ports     = 20_000
)

// Reserve returns a loopback port that is free, and stays so until release is called, also while the
// server that listens at it is dead: no other caller of Reserve gets it, in whatever process.
func Reserve() (port int, release func(), err error) {
	for range 100 {
		port = firstPort + rand.IntN(ports)
		if release, err = reserve(port); err == nil {
			return port, release, nil
		}
	}
	return 0, nil, err
}

func reserve(port int) (release func(), err error) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	// A socket of UDP is the sign of the reservation. It ends with the process.
	sign, err := net.ListenPacket("udp4", addr)
	if err != nil {
		return nil, err
	}
	release = func() { sign.Close() }
	// A port that refuses a connection is free. A listener for the check would not be gone with its Close: a process that
	// another goroutine starts meanwhile has a copy of it until its own program runs.
	// The answer comes at once, but a machine with other work may run this goroutine seconds later.
	cn, err := net.DialTimeout("tcp4", addr, 10*time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return release, nil
	}
	release()
	if err == nil {
		cn.Close()
		err = fmt.Errorf("servers: something listens at %s", addr)
	}
	return nil, err
}

// Port is [Reserve] until the end of the test.
func Port(t testing.TB) int {
	t.Helper()
	port, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// server is a process at an address and in a directory of its own. The methods are for one
// goroutine at a time.
type server struct {
	// Addr is host:port. It stays the same over Restart.
	Addr string
	// Dir is the directory, which is removed by Close.
	Dir string

	args    []string
	port    string
	release func() // of the port; nil before begin
	p       *Process
}

// begin makes the directory, reserves a port, and calls restart.
func (s *server) begin(name string, restart func() error) (err error) {
	if s.Dir, err = os.MkdirTemp("", "strata-"+name+"-"); err != nil {
		return err
	}
	var port int
	if port, s.release, err = Reserve(); err == nil {
		s.port = strconv.Itoa(port)
		s.Addr = net.JoinHostPort("127.0.0.1", s.port)
		err = restart()
	}
	if err != nil {
		s.Close()
	}
	return err
}

// Kill ends the server at once. Its data is lost.
func (s *server) Kill() {
	if s.p != nil {
		s.p.Kill()
	}
}

// Close ends the server and removes its directory.
func (s *server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.Dir)
	if s.release != nil {
		s.release()
	}
}

// Pid returns the number of the server's process.
func (s *server) Pid() int { return s.p.Pid() }
