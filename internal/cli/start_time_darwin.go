package cli

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processStart is when this process began, as the kernel keeps it.
func processStart() (time.Time, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", os.Getpid())
	if err != nil {
		return time.Time{}, fmt.Errorf("when this process began: %w", err)
	}
	return time.Unix(p.Proc.P_starttime.Unix()), nil
}
