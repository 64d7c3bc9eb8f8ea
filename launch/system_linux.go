package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes puts a worker in its own process group and kills it with the thread that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// unnamedFile returns an unnamed file, readable only by this user.
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
