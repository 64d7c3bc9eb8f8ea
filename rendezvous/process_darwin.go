package rendezvous

import (
	"sync"

	"golang.org/x/sys/unix"
)

var space = sync.OnceValue(func() string {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return boot
})

// sSTOP is SSTOP of <sys/proc.h>.
const sSTOP = 4

// look asks the kernel for the state of a process; it does not say which signal stopped it.
func look(pid int) (c condition, signal int) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	switch {
	case err != nil || int(p.Proc.P_pid) != pid:
		return unseen, 0
	case p.Proc.P_stat == sSTOP:
		return stopped, 0
	}
	return runs, 0
}
