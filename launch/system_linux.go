package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes: a process group of its own, and death with the thread that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// unnamedFile is a file without a name that only this user may read.
func unnamedFile(what string) (*os.File, error) {
	fd, err := unix.MemfdCreate(what, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), what)
	if err := unix.Fchmod(fd, 0o600); err != nil {
		f.Close()
		return nil, os.NewSyscallError("fchmod", err)
	}
	return f, nil
}
