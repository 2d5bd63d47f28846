package servers

import "syscall"

// DieWithParent makes the process started with a end together with this one, even if
// this one is killed.
func DieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
