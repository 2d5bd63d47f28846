//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package carrier

import (
	"errors"
	"os"
)

const lockFlags = 0

// lock returns an error: package syscall has no locks of files on this platform. Windows
// needs none, since it removes no open file.
func lock(*os.File) error { return errors.ErrUnsupported }
