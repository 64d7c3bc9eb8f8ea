package rundir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"trireme/fault"
)

// NewID returns a random run id: 16 letters and digits, 80 bits.
func NewID() string { return strings.ToLower(rand.Text()[:16]) }

// ValidID reports whether a text is a valid run id: 1 to 64 letters, digits, ".", "_" and "-".
func ValidID(s string) bool { return validID.MatchString(s) }

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func number(entry, name string) (int, bool) {
	digits, ok := strings.CutPrefix(entry, name+"-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0 && strconv.Itoa(n) == digits
}

func last(parent, name string) (int, error) {
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	most := 0
	for _, e := range entries {
		if n, ok := number(e.Name(), name); ok {
			most = max(most, n)
		}
	}
	return most, nil
}

// Newest returns the path of NAME-N in parent with the highest N; empty if there is none.
func Newest(parent, name string) (string, error) {
	n, err := last(parent, name)
	if err != nil || n == 0 {
		return "", err
	}
	return filepath.Join(parent, fmt.Sprintf("%s-%d", name, n)), nil
}

// Make creates the directory PARENT/NAME-N, with N one above the highest, and PARENT if needed.
// Concurrent callers get different directories.
func Make(parent, name string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	n, err := last(parent, name)
	if err != nil {
		return "", err
	}
	for {
		n++
		path := filepath.Join(parent, fmt.Sprintf("%s-%d", name, n))
		if err := os.Mkdir(path, 0o755); !errors.Is(err, fs.ErrExist) {
			return path, err
		}
	}
}

// CheckPath refuses a directory, the value of a key, that means something else to whoever wrote it: a URL, or a path below ~,
// which only a shell expands.
func CheckPath(key, dir string) error {
	if scheme, _, ok := strings.Cut(dir, "://"); ok && !strings.Contains(scheme, "/") {
		return fault.At(key, "is %q, which is not a directory of this machine", dir)
	}
	if below, ok := strings.CutPrefix(dir, "~"); ok && (below == "" || below[0] == '/') {
		err := fault.At(key, "is %q: only a shell expands ~", dir)
		if home, no := os.UserHomeDir(); no == nil {
			return fault.Try(err, "%s", filepath.Join(home, below))
		}
		return err
	}
	return nil
}

// ExistingRun returns the name of an entry in dir that a run has written: records, checkpoints or a final
// model. It is empty if there are none, for example if a run ended before its first step.
func ExistingRun(dir string) string {
	if st, err := os.Stat(filepath.Join(dir, Metrics)); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		return Metrics
	}
	for _, name := range []string{Checkpoints, FinalModel} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err == nil && len(entries) > 0 {
			return name
		}
	}
	return ""
}

// MoveAside renames a directory to DIR.N, with the first free N, and returns the new path. If dir is a
// symbolic link, its target is renamed.
func MoveAside(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.%d", real, n)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		err := os.Rename(real, to)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			continue // created meanwhile
		}
		return to, err
	}
}
