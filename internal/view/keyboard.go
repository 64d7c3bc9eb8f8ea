package view

import (
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Keyboard reads single keys from a terminal: without echo, and without waiting for the end of a line. Ctrl-C and
// Ctrl-Z stay signals.
//
// The settings of the terminal survive a killed process: a second process, the guard, receives them beforehand and
// restores them when the pipe to it closes (GuardTerminal). In the background a Keyboard changes and reads nothing.
type Keyboard struct {
	fd    int
	guard io.Writer // receives a guarded as a JSON line before each change
	made  time.Time

	mu          sync.Mutex
	changed     bool // the terminal has ours
	paused      bool
	saved, ours *unix.Termios // of the last change
}

// guarded is the message to a guard: the settings to restore if the terminal has the settings Ours.
type guarded struct {
	Saved, Ours *unix.Termios // both nil: nothing to restore
}

// NewKeyboard returns the keyboard of terminal f. guard is the pipe to a process that runs GuardTerminal.
func NewKeyboard(f *os.File, guard io.Writer) *Keyboard {
	return &Keyboard{fd: int(f.Fd()), guard: guard, made: time.Now()}
}

// foreground reports whether this process may read from the terminal. EIO means that the terminal is gone, which SIGHUP
// does not say where it is ignored, as under nohup.
func foreground(fd int) (bool, error) {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err == unix.EIO {
		return false, err
	}
	return err == nil && group == unix.Getpgrp(), nil
}

func (k *Keyboard) foreground() bool {
	ok, _ := foreground(k.fd)
	return ok
}

// ready changes the settings, if the process is in the foreground and they are not changed. An error means that the
// terminal is gone.
func (k *Keyboard) ready() (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ok, err := foreground(k.fd); k.paused || !ok {
		return false, err
	}
	if k.changed {
		return true, nil
	}
	saved, err := unix.IoctlGetTermios(k.fd, getTermios)
	if err != nil {
		return false, nil
	}
	switch {
	case k.ours != nil && *saved == *k.ours: // this process was stopped without notice, and nothing restored them
		saved = k.saved
	case ofWatch(saved) && time.Since(k.made) < guardTime: // one that was killed; its guard is about to restore them
		return false, nil
	}
	ours := *saved
	ours.Lflag &^= unix.ICANON | unix.ECHO
	ours.Cc[unix.VMIN] = 1 // a shell that reads before they are restored waits for a key
	// With VMIN 1 this has no effect on a read. It makes the settings those of this process: the guard of a watch
	// that was killed must not undo those of the next one.
	ours.Cc[unix.VTIME] = byte(1 + os.Getpid()%255)
	if err := k.send(guarded{saved, &ours}); err != nil {
		return false, nil // without a guard the settings stay
	}
	if err := unix.IoctlSetTermios(k.fd, setTermios, &ours); err != nil {
		return false, nil
	}
	k.changed, k.saved, k.ours = true, saved, &ours
	return true, nil
}

// ofWatch reports whether a Keyboard has made settings.
func ofWatch(t *unix.Termios) bool {
	return t.Lflag&(unix.ICANON|unix.ECHO) == 0 && t.Cc[unix.VMIN] == 1 && t.Cc[unix.VTIME] != 0
}

func (k *Keyboard) send(g guarded) error {
	b, err := json.Marshal(g)
	if err == nil {
		_, err = k.guard.Write(append(b, '\n'))
	}
	return err
}

// Restore restores the settings of the terminal, until Resume.
func (k *Keyboard) Restore() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.paused = true
	if !k.changed {
		return nil
	}
	k.changed = false
	var err error
	if k.foreground() { // else the shell has restored them, and a change would stop this process
		err = unix.IoctlSetTermios(k.fd, setTermios, k.saved)
	}
	if sent := k.send(guarded{}); err == nil {
		err = sent
	}
	return err
}

// Resume undoes Restore, or a stop of this process in which another one may have changed the settings.
func (k *Keyboard) Resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed, k.paused = false, false
}

// keyWait is the time after which read returns without keys.
const keyWait = 100 * time.Millisecond

// read returns the keys typed within keyWait. An error means that the terminal is gone.
func (k *Keyboard) read() ([]key, error) {
	if ok, err := k.ready(); !ok {
		time.Sleep(keyWait)
		return nil, err
	}
	polled := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, int(keyWait/time.Millisecond))
	if n == 0 || err == unix.EINTR {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if ok, err := foreground(k.fd); !ok {
		return nil, err
	}
	b := make([]byte, 64)
	switch n, err = unix.Read(k.fd, b); {
	case err == unix.EINTR || err == unix.EAGAIN:
		return nil, nil
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	}
	return parseKeys(b[:n]), nil
}

// guardTime is how long a guard waits for the terminal to have the watcher's settings again: a shell may set its
// own first, and restore those that it found.
const guardTime = 2 * time.Second

// GuardTerminal restores the settings of a terminal when the process that writes to r has ended without doing so.
// If another process has set others since, they stay. It runs in its own process group, so that signals of the
// terminal and to the job do not end it.
func GuardTerminal(tty *os.File, r io.Reader) error {
	signal.Ignore(syscall.SIGTTOU, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP)
	fd := int(tty.Fd())
	var last guarded
	for d := json.NewDecoder(r); ; {
		var g guarded
		if err := d.Decode(&g); err != nil {
			break // the other process has ended
		}
		last = g
	}
	if last.Saved == nil || last.Ours == nil {
		return nil
	}
	for began := time.Now(); time.Since(began) < guardTime; time.Sleep(20 * time.Millisecond) {
		now, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil {
			return nil // the terminal is gone
		}
		if *now == *last.Ours {
			return unix.IoctlSetTermios(fd, setTermios, last.Saved)
		}
	}
	return nil
}
