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

// userSecret is what processes of this user on this machine know and those of other users don't:
// 32 random bytes in $TMPDIR/trireme-UID/key, which the first to ask makes. It stays there.
func userSecret() ([]byte, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("trireme-%d", os.Getuid()))
	b, err := userSecretIn(path)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("rendezvous: the key of this user's processes: %w", err), "%s=FILE (mode 0600), or another TMPDIR for all ranks", SecretFileVar)
	}
	return b, nil
}

func userSecretIn(path string) (_ []byte, err error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := os.OpenRoot(path) // everything from here on is in the directory that is checked now
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if st, err := dir.Stat("."); err != nil || !private(st) {
		return nil, errors.Join(err, fmt.Errorf("%s belongs to another user, or others may enter it", path))
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

// private says that a file is this user's, and others may do nothing with it.
func private(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid() && st.Mode().Perm()&0o077 == 0
}

func readUserKey(dir *os.Root) ([]byte, error) {
	f, err := dir.OpenFile(userKeyName, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO holds up nobody
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || !private(st) || st.Size() != userKeySize {
		return nil, fmt.Errorf("%s is not a file of %d bytes, mode 0600, of this user", userKeyName, userKeySize)
	}
	b := make([]byte, userKeySize)
	_, err = io.ReadFull(f, b)
	return b, err
}

// makeUserKey gives the key its name when it is whole: of several that make one, the first wins.
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
