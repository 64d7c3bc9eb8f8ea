package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"trireme/hub"
	"trireme/internal/conf"
)

// exists reports whether a path exists, even if it is not accessible.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ENAMETOOLONG)
}

// isPath reports whether a value can only be a local path: it is no name on the hub, or it starts with
// an existing folder and has no revision.
func isPath(n hub.Name, ok bool) bool {
	first, _, deep := strings.Cut(n.ID, "/")
	return !ok || deep && n.Revision == "" && exists(first)
}

// missingPath is the error of a path that does not exist. kind is the expected kind of file; parse
// reports whether the path would be a name on the hub with a revision.
func missingPath(where, path, kind string, parse func(string) (hub.Name, bool)) error {
	text, try := path+" does not exist", "the path of a "+kind
	if target, err := os.Readlink(path); err == nil {
		text += ": it is a link to " + target
	} else {
		last, why := firstMissing(path)
		text += why
		if near := nearbyPath(last); near != "" {
			text += fmt.Sprintf(" (did you mean %s?)", near)
		}
	}
	if n, ok := parse(path + "@main"); ok && strings.Contains(path, "/") {
		try += ", or " + n.String() + " for the hub"
	}
	return &Exit{CodeUsage, &Problem{Text: withOrigin(where, text), Try: try}}
}

// firstMissing returns a path up to its first missing element, and why it is missing if that is not the
// last element.
func firstMissing(path string) (upTo, why string) {
	path = filepath.Clean(path)
	for upTo = path; ; upTo = filepath.Dir(upTo) {
		dir := filepath.Dir(upTo)
		st, err := os.Stat(dir)
		switch {
		case err == nil && !st.IsDir():
			return upTo, fmt.Sprintf(": %s is a file", dir)
		case dir == upTo || err == nil && upTo == path:
			return upTo, ""
		case err == nil:
			return upTo, fmt.Sprintf(": missing directory %s", upTo)
		}
	}
}

// nearbyPath returns a similar path in the same directory, or "".
func nearbyPath(path string) string {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Join(dir, "."))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if near := conf.Nearest(base, names); near != "" {
		return filepath.Join(dir, near)
	}
	return ""
}

// withOrigin prefixes a message with the position in a file. The message of a flag starts with its
// value instead.
func withOrigin(where, text string) string {
	if where == "" || strings.HasPrefix(where, "--") {
		return text
	}
	return where + ": " + text
}
