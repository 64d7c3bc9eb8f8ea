package plugin

import (
	"path/filepath"
	"slices"
)

// sites returns the directories of Python packages, those of the active environment first: PYTHONPATH,
// VIRTUAL_ENV, CONDA_PREFIX, the installations of the python3 on PATH, the user's packages, and the
// distribution's.
func (s System) sites() []string {
	dirs := s.list("PYTHONPATH")
	prefixes := []string{s.env("VIRTUAL_ENV"), s.env("CONDA_PREFIX")}
	for _, bin := range s.list("PATH") {
		python := filepath.Join(bin, "python3")
		if !isFile(python) {
			continue
		}
		prefixes = append(prefixes, filepath.Dir(bin))
		if filepath.Base(bin) == "shims" { // pyenv: scripts that start one of its versions
			prefixes = append(prefixes, glob(filepath.Dir(bin), "versions/*")...)
		}
		if file, err := filepath.EvalSymlinks(python); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Dir(file)))
		}
	}
	if s.Home != "" {
		prefixes = append(prefixes, filepath.Join(s.Home, ".local"))
	}
	prefixes = append(prefixes, s.under("usr/local", "usr")...)
	for _, p := range prefixes {
		if p == "" {
			continue
		}
		for _, pattern := range []string{"lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages"} {
			dirs = append(dirs, glob(p, pattern)...)
		}
	}
	out := []string{}
	for _, d := range dirs {
		if isDir(d) && !slices.ContainsFunc(out, func(o string) bool { return sameFile(o, d) }) {
			out = append(out, filepath.Clean(d))
		}
	}
	return out
}
