//go:build unix

package ending

import (
	"os"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the other end of a pipe is closed.
func hungUp(f *os.File) bool {
	p := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
