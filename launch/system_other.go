//go:build !linux

package launch

import (
	"crypto/rand"
	"os"
	"syscall"
)

// processAttributes: a process group of its own. The death of the launcher reaches a worker
// by the pipe alone.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// secretFile is a file, already removed, that holds a new secret.
func secretFile() (*os.File, error) {
	f, err := os.CreateTemp("", "trireme-*") // mode 0600
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err := f.WriteString(rand.Text()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
