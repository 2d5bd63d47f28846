//go:build !linux

package servers

import "syscall"

// DieWithParent does nothing: only Linux can.
func DieWithParent(*syscall.SysProcAttr) {}
