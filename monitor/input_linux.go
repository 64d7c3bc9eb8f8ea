package monitor

import "golang.org/x/sys/unix"

// pendingInput counts what was pendingInput on a terminal in whole lines and waits to be read. Nothing is read,
// and no mode is changed: what was pendingInput is the shell's when the run is over.
func pendingInput(fd int) func() int {
	return func() int {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err != nil {
			return 0
		}
		return n
	}
}
