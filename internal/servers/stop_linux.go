package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Stop pauses the process, and returns when none of its threads runs any more: the signal
// alone lets a thread that runs on another processor answer for a moment.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.Await(p.stopped)
}

// stopped returns nil if no thread of the process runs.
func (p *Process) stopped() error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
	if err != nil {
		return err
	}
	for _, t := range threads {
		stat, err := os.ReadFile(t)
		if err != nil {
			return err
		}
		// The state follows the name of the program, which is in brackets.
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if len(state) == 0 || state[0] != 'T' {
			return fmt.Errorf("a thread is in the state %.1s", state)
		}
	}
	return nil
}
