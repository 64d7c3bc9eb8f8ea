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

// exitWait is how long Acquire waits for the processes of a job whose launcher is gone already.
const exitWait = 5 * time.Second

// shortWait is how long Acquire and CheckFree wait in any case: another process may only look whether the lock
// is free, and one that was killed may leave a worker that is about to end.
const shortWait = 500 * time.Millisecond

// Owner is the process that holds a lock.
type Owner struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// InUseError is the error of a directory that another process holds.
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
	// Previous is the process that held the lock before and did not release it; PID 0: none. Where file
	// systems do not share locks between hosts, it may still run on its own.
	Previous Owner
}

// Acquire takes the lock of a directory for this process, or returns an *InUseError. It waits only for
// processes that are about to end.
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

// claim writes this process into a file that it has locked; left is who was there.
func claim(f *os.File, left Owner) (*Lock, error) {
	l := &Lock{f: f, Previous: left}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
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

// CheckFree returns an *InUseError where another process holds the lock of a directory. It changes nothing.
func CheckFree(dir string) error {
	f, err := flock.Open(filepath.Join(dir, lockName), os.O_RDONLY, 0)
	if err != nil {
		return nil // there is no lock, or Acquire will say what is wrong with it
	}
	defer f.Close()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if !flock.Locked(f) {
			return nil
		}
		switch o := read(f); {
		case o.ended():
			return nil // Acquire waits for the rest
		case time.Since(began) > shortWait:
			return &InUseError{dir, o}
		}
	}
}

// read is who a lock's file names.
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

// ended says whether the owner was a process of this host that is gone: what still holds its lock is
// about to end too.
func (o Owner) ended() bool {
	host, err := os.Hostname()
	return o.PID > 0 && err == nil && o.Host == host && errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH)
}

// File is what a process inherits that is to hold the lock as well.
func (l *Lock) File() *os.File { return l.f }

func (l *Lock) write(b []byte) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt(b, 0)
	return err
}

// Release gives the lock up. The file stays: another may be about to lock it.
func (l *Lock) Release() error {
	return errors.Join(l.write(nil), l.f.Close())
}
