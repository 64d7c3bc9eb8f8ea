package monitor

import "golang.org/x/sys/unix"

// typed counts what was typed on a terminal in whole lines and waits to be read. Nothing is read,
// and no mode is changed: what was typed is the shell's when the run is over.
func typed(fd int) func() int {
	return func() int {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err != nil {
			return 0
		}
		return n
	}
}
