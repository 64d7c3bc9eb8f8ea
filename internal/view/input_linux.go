package view

import "golang.org/x/sys/unix"

// pendingInput counts the bytes of whole lines typed on a terminal. It leaves them for the shell and
// does not change the terminal's mode.
func pendingInput(fd int) func() int {
	return func() int {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err != nil {
			return 0
		}
		return n
	}
}
