package servers

import "syscall"

// dieWithParent ends the server even if the test is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
