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

// exists tells whether something is at a path, even if it may not be looked at.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ENAMETOOLONG)
}

// isPath tells whether a value can only be a path of this machine: it is no name on the hub, or
// it begins with a folder that is here. With its revision it is a name all the same.
func isPath(n hub.Name, ok bool) bool {
	first, _, deep := strings.Cut(n.ID, "/")
	return !ok || deep && n.Revision == "" && exists(first)
}

// missingPath is the error of a path that leads nowhere; kind is a directory, say, and parse
// tells whether with a revision it would be a name.
func missingPath(where, path, kind string, parse func(string) (hub.Name, bool)) error {
	text, try := path+" does not exist", "the path of a "+kind+" that does"
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
		try += ", or " + n.String() + " if the hub's is meant"
	}
	return &Exit{CodeUsage, &Problem{Text: withOrigin(where, text), Try: try}}
}

// lastThere is the part of a path up to the first element that is not there, and why the path
// leads no farther, where that is not plain.
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
			return upTo, fmt.Sprintf(": there is no %s", upTo)
		}
	}
}

// meant is a path that lies beside the one that is not there, and looks like it.
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

// placed puts the place in a file before what is wrong there. A flag needs none: its value is
// what the message begins with.
func withOrigin(where, text string) string {
	if where == "" || strings.HasPrefix(where, "--") {
		return text
	}
	return where + ": " + text
}
