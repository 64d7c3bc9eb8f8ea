package flock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trireme/fault"
)

func TestTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	f, held, err := TryLock(path, 0o600)
	if err != nil || !held {
		t.Fatalf("a free lock: %v, %v", held, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	other, held, err := TryLock(path, 0o600)
	if err != nil || held || !Locked(other) {
		t.Fatalf("a lock that is held: %v, %v, %v", held, Locked(other), err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if Locked(other) {
		t.Error("a released lock is held")
	}
	again, held, err := TryLock(path, 0o600)
	if err != nil || !held { // which also shows that Held takes none
		t.Fatalf("a released lock: %v, %v", held, err)
	}
	other.Close()
	// The lock of a renamed file is not the lock of this name.
	if err := os.Rename(path, path+".aside"); err != nil {
		t.Fatal(err)
	}
	fresh, held, err := TryLock(path, 0o600)
	if err != nil || !held {
		t.Fatalf("a new file under the name: %v, %v", held, err)
	}
	fresh.Close()
	again.Close()
}

// Two goroutines never hold the lock at once.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	inside := make(chan struct{}, 1)
	done := make(chan error)
	for range 4 {
		go func() {
			for range 5 {
				unlock, err := Lock(t.Context(), path, 0o600, nil)
				if err != nil {
					done <- err
					return
				}
				select {
				case inside <- struct{}{}:
					time.Sleep(time.Millisecond)
					<-inside
				default:
					err = errors.New("two hold the lock")
				}
				if err = errors.Join(err, unlock()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestLockEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	f, _, err := TryLock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	slow := 0
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path, 0o600, func() { slow++ }); !errors.Is(err, context.DeadlineExceeded) || slow != 1 {
		t.Errorf("%v, called %d times", err, slow)
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := TryLock(path, 0o600); err == nil || !strings.Contains(err.Error(), "not a regular file") || !fault.HasTry(err) {
		t.Errorf("a pipe: %v", err)
	}
}
