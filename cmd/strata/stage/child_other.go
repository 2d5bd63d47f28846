//go:build !linux

package stage

import "syscall"

// ofThisProcess returns nil: only Linux can end a server together with this process when
// this process is killed.
func ofThisProcess() *syscall.SysProcAttr { return nil }
