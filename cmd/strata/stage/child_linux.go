package stage

import "syscall"

// ofThisProcess are the attributes of a server that ends together with this process, even if
// this process is killed. Signals of a terminal do not reach the server: they go to this
// process alone, which then tidies up in order.
func ofThisProcess() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
