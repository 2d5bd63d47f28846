// Package servers starts real servers for tests and benchmarks, each as a
// process of its own on a free loopback port, with its data in a temporary
// directory. A missing server is installed from the distribution's packages if this
// process may install them. Otherwise the error is [ErrMissing], and a test fails: a
// skipped test proves nothing.
package servers

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
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

// FreePort returns a loopback port, free at this moment. Another process may take it
// before it is used.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// server is a process at an address and in a directory of its own. The methods are for one
// goroutine at a time.
type server struct {
	// Addr is host:port. It stays the same over Restart.
	Addr string
	// Dir is the directory, which is removed by Close.
	Dir string

	args []string
	port string
	p    *Process
}

// begin makes the directory, and calls restart with a free port.
func (s *server) begin(name string, restart func() error) (err error) {
	if s.Dir, err = os.MkdirTemp("", "strata-"+name+"-"); err != nil {
		return err
	}
	for range 5 { // another process may take the port first
		var port int
		if port, err = FreePort(); err != nil {
			break
		}
		s.port = strconv.Itoa(port)
		s.Addr = net.JoinHostPort("127.0.0.1", s.port)
		if err = restart(); err == nil {
			return nil
		}
	}
	s.Close()
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
}

// Pid returns the number of the server's process.
func (s *server) Pid() int { return s.p.Pid() }
