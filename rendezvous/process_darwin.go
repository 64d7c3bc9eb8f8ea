package rendezvous

import (
	"sync"

	"golang.org/x/sys/unix"
)

var namespaces = sync.OnceValue(func() string {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return boot
})

// sSTOP is SSTOP of <sys/proc.h>.
const sSTOP = 4

// stateOf returns the state of a process. The signal is unknown, and the processor time.
func stateOf(pid int) (c processState, signal int, ticks int64) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	switch {
	case err != nil || int(p.Proc.P_pid) != pid:
		return unknown, 0, 0
	case p.Proc.P_stat == sSTOP:
		return stopped, 0, 0
	}
	return running, 0, 0
}
