package launch

import (
	"crypto/rand"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes: a process group of its own, and death with the thread that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// secretFile is a file without a name that holds a new secret.
func secretFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("trireme-secret", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "secret")
	if err := unix.Fchmod(fd, 0o600); err != nil {
		f.Close()
		return nil, os.NewSyscallError("fchmod", err)
	}
	if _, err := f.WriteString(rand.Text()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
