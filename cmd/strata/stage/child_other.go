//go:build !linux

package stage

import "syscall"

// ofThisProcess are no attributes: only Linux can end a server with this process if that is
// killed.
func ofThisProcess() *syscall.SysProcAttr { return nil }
