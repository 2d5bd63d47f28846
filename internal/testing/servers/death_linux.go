package servers

import "syscall"

// DieWithParent ends the process that is started with a even if this one is
// killed.
func DieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
