package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"
)

// FileName returns the base name of a rank's file.
func FileName(rank int) string { return fmt.Sprintf("rank-%04d.state", rank) }

// Attach moves the state to a new file, which replaces an older one. Space is allocated first, so that a full disk
// cannot fault. The file stays, and stays mapped until the process ends. Call it when no operation runs.
func (r *Recorder) Attach(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("flight: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("flight: %w", err)
	}
	defer f.Close()
	if err = r.mapTo(f); err == nil {
		err = errors.Join(f.Chmod(0o644), os.Rename(f.Name(), path))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("flight: %s: %w", path, err)
	}
	return nil
}

func (r *Recorder) mapTo(f *os.File) error {
	if _, err := f.Write(r.words().bytes()); err != nil {
		return err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, 8*maxWords, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	r.p.Store((*[maxWords]uint64)(unsafe.Pointer(unsafe.SliceData(mem))))
	return nil
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ReadFile parses the file of a rank.
func ReadFile(path string) (*State, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	s, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("flight: %s: %w", path, err)
	}
	return s, nil
}
