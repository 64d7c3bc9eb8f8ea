//go:build !linux

package launch

import (
	"os"
	"syscall"
)

// processAttributes: a process group of its own. The death of the launcher reaches a worker
// by the pipe alone.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// unnamedFile is a file, already removed, that only this user may read.
func unnamedFile(what string) (*os.File, error) {
	f, err := os.CreateTemp("", what+"-*") // mode 0600
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	return f, nil
}
