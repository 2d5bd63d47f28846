package stage

import "syscall"

// ofThisProcess are the attributes of a server that ends with this process, even if that is
// killed, and before it by nothing else: a terminal sends its signals to this process alone,
// which then tidies up in order.
func ofThisProcess() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
