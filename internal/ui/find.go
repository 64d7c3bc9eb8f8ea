package ui

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of the search for runs.
const (
	maxDepth = 5     // below a directory that was given
	maxRuns  = 20000 // more are left out
)

// location is the directory of a run.
type location struct {
	id   string // the path as the user would write it
	path string
	name string // the shortest end of id that no other run has
}

// find returns the runs in dirs and below. A run's own directories are not searched, nor are hidden ones, and
// symbolic links are not followed. Directories that cannot be read have no runs.
func find(dirs []string) []location {
	var found []location
	seen := map[string]bool{}
	for _, dir := range dirs {
		dir = filepath.Clean(dir)
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil || !e.IsDir():
				if err != nil && e != nil && e.IsDir() {
					return fs.SkipDir
				}
				return nil
			case path != dir && strings.HasPrefix(e.Name(), "."):
				return fs.SkipDir
			case isRun(path):
				abs, err := filepath.Abs(path)
				if err == nil && !seen[abs] {
					seen[abs] = true
					found = append(found, location{id: filepath.ToSlash(path), path: path})
				}
				if len(found) >= maxRuns {
					return fs.SkipAll
				}
				return fs.SkipDir
			case path != dir && strings.Count(strings.TrimPrefix(path, dir), string(filepath.Separator)) >= maxDepth:
				return fs.SkipDir
			}
			return nil
		})
	}
	shorten(found)
	return found
}

// isRun reports whether a directory has a run's files.
func isRun(dir string) bool {
	for _, name := range []string{"run.json", "metrics.jsonl"} {
		if st, err := os.Lstat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// shorten names each run by the end of its id, with the elements that it needs to differ.
func shorten(found []location) {
	left := make([]int, len(found))
	for i := range found {
		if abs, err := filepath.Abs(found[i].path); err == nil && filepath.Base(found[i].path) == "." {
			found[i].id = filepath.ToSlash(filepath.Base(abs))
		}
		left[i] = i
	}
	for n := 1; len(left) > 0; n++ {
		groups := map[string][]int{}
		for _, i := range left {
			groups[end(found[i].id, n)] = append(groups[end(found[i].id, n)], i)
		}
		left = left[:0]
		for name, of := range groups {
			for _, i := range of {
				found[i].name = name
				if len(of) > 1 && name != found[i].id {
					left = append(left, i)
				}
			}
		}
		slices.Sort(left)
	}
}

// end returns the last n elements of a path.
func end(path string, n int) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-n):], "/")
}
