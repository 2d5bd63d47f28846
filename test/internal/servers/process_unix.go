//go:build unix

package servers

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout is how long a server may take to answer.
const startTimeout = 30 * time.Second

// process is a running server.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{} // closed when the process has ended and was waited for
}

// logBuffer keeps the beginning of what a server writes.
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

// start runs cmd until kill is called.
func start(t testing.TB, cmd *exec.Cmd) (*process, error) {
	p := &process{t: t, cmd: cmd, log: &logBuffer{}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	DieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // a killed process is what is wanted
		close(p.exited)
	}()
	return p, nil
}

// kill ends the process at once and waits for its end. It may be called again.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// signal fails the test if the process is gone.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v to %s: %v", s, p.cmd.Path, err)
	}
}

// await calls ready until it returns nil.
func (p *process) await(ready func() error) error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s has ended:\n%s", p.cmd.Path, p.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w\n%s", p.cmd.Path, err, p.log)
		}
	}
}

// freePort returns a loopback port that nobody uses right now.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
