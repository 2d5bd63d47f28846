//go:build linux

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
)

// Process is a worker as its parent sees it. Do is for one goroutine at a time.
type Process struct {
	cmd    *exec.Cmd
	in     io.Closer
	enc    *json.Encoder
	dec    *json.Decoder
	exited chan struct{} // closed when the process has ended and was waited for

	mu     sync.Mutex // guards below
	ending bool       // it is meant to end
}

// Start starts this program again, as a worker. It ends with this process.
func Start(c Config) (*Process, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:noctx // it ends when it is told to, or with this process
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	servers.DieWithParent(cmd.SysProcAttr)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out), exited: make(chan struct{})}
	go func() {
		_, _ = cmd.Process.Wait() // the result says nothing: processes are killed on purpose
		close(p.exited)
	}()
	return p, nil
}

// ErrExited is returned when a worker has ended before it answered.
var ErrExited = errors.New("cluster: worker has ended")

// Do lets the worker carry out a command, for at most two minutes.
func (p *Process) Do(c Command) (a Answer, err error) {
	if c.Op == "close" {
		p.end()
	}
	timer := time.AfterFunc(2*time.Minute, p.Kill)
	defer timer.Stop()
	if err := p.enc.Encode(c); err != nil {
		return a, errors.Join(ErrExited, err)
	}
	if err := p.dec.Decode(&a); err != nil {
		return a, errors.Join(ErrExited, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s", c.Op, a.Error)
	}
	return a, nil
}

func (p *Process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
}

// Kill ends the worker at once and waits for its end. It may be called again.
func (p *Process) Kill() {
	p.end()
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.in.Close()
}

// Stop pauses the worker: its connections stay open, and nothing in it runs.
func (p *Process) Stop() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends a pause.
func (p *Process) Continue() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Crashed reports whether the worker has ended without having been asked to.
func (p *Process) Crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
		return !p.ending
	default:
		return false
	}
}
