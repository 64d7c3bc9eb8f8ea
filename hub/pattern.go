package hub

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"trireme/internal/objectstore"
)

// Pattern returns a path or filepath.Glob pattern that matches Files and no other file of the
// commit (it may match folders). It is an error if no pattern does. Of objects it is the directory, the file or the
// pattern that the URL names.
func (s *Snapshot) Pattern() (string, error) {
	if objectstore.IsURL(s.Name.ID) {
		if strings.ContainsAny(s.within, patternChars) {
			return quote(s.Dir) + "/" + s.within, nil
		}
		return filepath.Join(s.Dir, filepath.FromSlash(s.within)), nil
	}
	if len(s.Files) == 0 {
		return "", &Error{Kind: ErrNotFound, Text: s.Name.ID + " has no files"}
	}
	pattern := strings.Split(s.Files[0], "/")
	for i := range pattern {
		pattern[i] = quote(pattern[i])
	}
	fail := func(other string) error {
		return &Error{Text: fmt.Sprintf("no pattern matches the %d files of %s, such as %s, without %s", len(s.Files), s.Name.ID, s.Files[0], other), Try: "a pattern: " + s.Name.ID + "/" + path.Dir(s.Files[0]) + "/*" + path.Ext(s.Files[0])}
	}
	if len(s.Files) > 1 {
		var columns [][]string
		for _, name := range s.Files {
			parts := strings.Split(name, "/")
			if len(parts) != len(pattern) {
				return "", fail(name)
			}
			columns = append(columns, parts)
		}
		for i := range pattern {
			var names []string
			for _, parts := range columns {
				names = append(names, parts[i])
			}
			pattern[i] = common(names)
		}
	}
	joined := strings.Join(pattern, "/")
	for _, other := range s.others {
		if matches(joined, other) {
			return "", fail(other)
		}
	}
	if len(s.Files) == 1 {
		return filepath.Join(s.Dir, filepath.FromSlash(s.Files[0])), nil
	}
	return quote(s.Dir) + "/" + joined, nil
}

// common returns a pattern for all names: their common prefix and suffix with a star between.
func common(names []string) string {
	first, last := slices.Min(names), slices.Max(names)
	if first == last {
		return quote(first)
	}
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	prefix := first[:n]
	suffix := first[n:]
	for _, name := range names {
		for !strings.HasSuffix(name[n:], suffix) {
			suffix = suffix[1:]
		}
	}
	return quote(prefix) + "*" + quote(suffix)
}

func quote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
