package cli

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func processStart() (time.Time, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", os.Getpid())
	if err != nil {
		return time.Time{}, fmt.Errorf("start time of this process: %w", err)
	}
	return time.Unix(p.Proc.P_starttime.Unix()), nil
}
