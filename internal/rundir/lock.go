package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"trireme/internal/flock"
)

// exitWait is how long Acquire waits for the processes of a job whose launcher has exited.
const exitWait = 5 * time.Second

// shortWait is how long Acquire and CheckFree always wait: another process may only be checking the lock,
// or a killed one may leave a worker that is about to exit.
const shortWait = 500 * time.Millisecond

// Owner is the process that holds a lock.
type Owner struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// InUseError reports a directory locked by another process.
type InUseError struct {
	Dir   string
	Owner Owner
}

func (e *InUseError) Error() string {
	o := e.Owner
	if o.PID == 0 {
		return fmt.Sprintf("%s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("%s is in use by pid %d on %s since %s", e.Dir, o.PID, o.Host, o.Since.Local().Format("2006-01-02 15:04:05"))
}

// Lock is a held lock.
type Lock struct {
	f *os.File
	// Previous is the last owner if it did not release the lock; PID 0: none. On file systems that do
	// not share locks between hosts, it may still be running on its host.
	Previous Owner
}

// Acquire locks a directory for this process, or returns an *InUseError. It waits only for processes that
// are about to exit.
func Acquire(dir string) (*Lock, error) {
	path := filepath.Join(dir, lockName)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, held, err := flock.TryLock(path, 0o644)
		if err != nil {
			return nil, err
		}
		o := read(f)
		if held {
			return claim(f, o)
		}
		f.Close()
		wait := shortWait
		if o.ended() {
			wait = exitWait
		}
		if time.Since(began) > wait {
			return nil, &InUseError{dir, o}
		}
	}
}

// claim writes this process into a locked file; left is the previous owner.
func claim(f *os.File, left Owner) (*Lock, error) {
	l := &Lock{f: f, Previous: left}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	b, err := json.Marshal(Owner{os.Getpid(), host, time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = l.write(append(b, '\n'))
	}
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// CheckFree returns an *InUseError if another process holds the lock of a directory. It changes nothing.
func CheckFree(dir string) error {
	f, err := flock.Open(filepath.Join(dir, lockName), os.O_RDONLY, 0)
	if err != nil {
		return nil // no lock, or an error that Acquire reports
	}
	defer f.Close()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if !flock.Locked(f) {
			return nil
		}
		switch o := read(f); {
		case o.ended():
			return nil // Acquire waits for its workers
		case time.Since(began) > shortWait:
			return &InUseError{dir, o}
		}
	}
}

// Holder returns the process that holds the lock of a directory. It does not wait.
func Holder(dir string) (o Owner, held bool) {
	f, err := flock.Open(filepath.Join(dir, lockName), os.O_RDONLY, 0)
	if err != nil {
		return o, false
	}
	defer f.Close()
	return read(f), flock.Locked(f)
}

func read(f *os.File) (o Owner) {
	b := make([]byte, 1024)
	n, _ := f.ReadAt(b, 0)
	if json.Unmarshal(b[:n], &o) != nil || o.PID < 0 {
		return Owner{}
	}
	o.Host = strings.Map(func(r rune) rune { // for a terminal
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, o.Host)
	return o
}

// ended reports whether the owner was a process of this host that has exited. Processes that inherited
// its lock are about to exit too.
func (o Owner) ended() bool {
	host, err := os.Hostname()
	return o.PID > 0 && err == nil && o.Host == host && errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH)
}

// File is for a child process to inherit, which then holds the lock too.
func (l *Lock) File() *os.File { return l.f }

func (l *Lock) write(b []byte) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt(b, 0)
	return err
}

// Release releases the lock. The file stays, since another process may be about to lock it.
func (l *Lock) Release() error {
	return errors.Join(l.write(nil), l.f.Close())
}
