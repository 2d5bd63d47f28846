//go:build unix && !linux

package servers

import "syscall"

// Stop pauses the process.
func (p *Process) Stop() error { return p.Signal(syscall.SIGSTOP) }
