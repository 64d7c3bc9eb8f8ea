package rundir

import "path/filepath"

// IsInside reports whether a path is in a directory.
func IsInside(path, dir string) bool {
	rel, err := filepath.Rel(Resolve(dir), Resolve(path))
	return err == nil && filepath.IsLocal(rel)
}

// Resolve returns the absolute path with symbolic links resolved in its existing part.
func Resolve(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir, base := filepath.Split(path)
	return filepath.Join(Resolve(dir), base)
}
