//go:build !linux

package launch

import (
	"os"
	"syscall"
)

// processAttributes puts a worker in its own process group. Only the pipe ends it with the launcher.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// unnamedFile returns a removed file, readable only by this user.
func unnamedFile(what string) (*os.File, error) {
	f, err := os.CreateTemp("", what+"-*") // mode 0600
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	return f, nil
}
