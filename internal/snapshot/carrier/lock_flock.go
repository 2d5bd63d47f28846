//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package carrier

import (
	"errors"
	"os"
	"syscall"
)

// lockFlags follow no link, and do not wait for the other end, as an open of a pipe
// would.
const lockFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// lock takes the lock of f until f is closed or the process ends. It does not wait: if
// the lock is taken, it returns errLocked. Other errors say that the file system has no
// locks.
func lock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Control(func(fd uintptr) {
		for result = syscall.EINTR; result == syscall.EINTR; {
			result = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
		}
	})
	if errors.Is(result, syscall.EWOULDBLOCK) {
		result = errLocked
	}
	return errors.Join(err, result)
}
