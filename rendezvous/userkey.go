package rendezvous

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"trireme/fault"
)

const (
	userKeyName = "key"
	userKeySize = 32
)

// UserSecret returns the secret shared by this user's processes on this machine: 32 random bytes in
// $TMPDIR/trireme-UID/key, created by the first call and kept.
func UserSecret() ([]byte, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("trireme-%d", os.Getuid()))
	b, err := userSecretIn(path)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("rendezvous: read or create the user's key: %w", err), "%s=FILE (mode 0600), or another TMPDIR for all ranks", SecretFileVar)
	}
	return b, nil
}

func userSecretIn(path string) (_ []byte, err error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := os.OpenRoot(path) // all later accesses are in this directory
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if st, err := dir.Stat("."); err != nil || !private(st) {
		return nil, errors.Join(err, fmt.Errorf("%s belongs to another user, or is accessible to others", path))
	}
	b, err := readUserKey(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeUserKey(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		b, err = readUserKey(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// private reports whether a file belongs to this user and is inaccessible to others.
func private(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid() && st.Mode().Perm()&0o077 == 0
}

func readUserKey(dir *os.Root) ([]byte, error) {
	f, err := dir.OpenFile(userKeyName, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not block on a FIFO
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || !private(st) || st.Size() != userKeySize {
		return nil, fmt.Errorf("%s is not a regular file of %d bytes with mode 0600 and this owner", userKeyName, userKeySize)
	}
	b := make([]byte, userKeySize)
	_, err = io.ReadFull(f, b)
	return b, err
}

// makeUserKey links the complete key to its name: of concurrent calls, the first wins.
func makeUserKey(dir *os.Root) error {
	b := make([]byte, userKeySize)
	rand.Read(b)
	tmp := userKeyName + "-" + rand.Text()
	defer dir.Remove(tmp)
	if err := dir.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return dir.Link(tmp, userKeyName)
}
