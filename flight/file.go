package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// FileName returns the base name of a rank's file.
func FileName(rank int) string { return fmt.Sprintf("rank-%04d.state", rank) }

// Create returns a Recorder in a new file, which replaces an older one. Space is allocated first, so that a
// full disk cannot fault. The file stays, and stays mapped until the process ends.
func Create(path string, id Identity) (*Recorder, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	defer f.Close()
	r, err := mapped(f)
	if err == nil {
		r.begin(id)
		err = errors.Join(f.Chmod(0o644), os.Rename(f.Name(), path))
	}
	if err != nil {
		os.Remove(f.Name())
		return nil, fmt.Errorf("flight: %s: %w", path, err)
	}
	return r, nil
}

func mapped(f *os.File) (*Recorder, error) {
	if _, err := f.Write(make([]byte, 8*maxWords)); err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, 8*maxWords, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Recorder{w: wordsOf(mem)}, nil
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
