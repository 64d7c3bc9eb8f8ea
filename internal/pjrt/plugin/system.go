package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// System is the environment that a search reads.
type System struct {
	Root  string // of fixed paths such as /usr/lib: "/"
	Cache string // the user's cache directory; empty for none
	Home  string // empty for none
	// LookupEnv returns an environment variable, as os.LookupEnv does.
	LookupEnv func(name string) (value string, set bool)
}

// Machine is the System of this process.
func Machine() System {
	s := System{Root: "/", LookupEnv: os.LookupEnv}
	s.Cache, _ = os.UserCacheDir()
	s.Home, _ = os.UserHomeDir()
	return s
}

func (s System) env(name string) string {
	value, _ := s.LookupEnv(name)
	return value
}

// list returns the directories of an environment variable such as PATH.
func (s System) list(variable string) (dirs []string) {
	for _, d := range filepath.SplitList(s.env(variable)) {
		if d != "" {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// under returns paths below the root.
func (s System) under(paths ...string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = filepath.Join(s.Root, p)
	}
	return out
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// glob returns the files of a pattern below dir, which may have special characters, the newest version
// first.
func glob(dir, pattern string) []string {
	names, err := filepath.Glob(filepath.Join(escape(dir), pattern))
	if err != nil {
		return nil
	}
	slices.SortFunc(names, func(a, b string) int { return compareVersions(b, a) })
	return names
}

func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// compareVersions compares texts, their numbers by value: python3.9 is before python3.12.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if len(m) != len(n) {
				return len(m) - len(n)
			}
			if c := strings.Compare(m, n); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digits returns the number of leading digits.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// unique returns the elements without repetitions, in order.
func unique(list []string) (out []string) {
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
