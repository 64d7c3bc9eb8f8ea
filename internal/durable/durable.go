// Package durable replaces small files atomically: a crash, a full disk or a power loss leaves the old
// file or the new one.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// WriteFile replaces the file at path with data, with mode 0644.
func WriteFile(path string, data []byte) error {
	return Replace(path, 0o644, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Replace replaces the file at path with what fill writes to a temporary file in its directory. It
// returns once the bytes and the name are on disk. After an error the old file is unchanged and the
// temporary file is removed. Errors of fill are returned as they are except for the temporary file's
// name; others are an *fs.PathError of path. Concurrent calls are safe: one of them wins.
func Replace(path string, perm fs.FileMode, fill func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp*")
	if err != nil {
		return pathError(path, err)
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	defer f.Close()
	for _, do := range []func() error{
		func() error { return fill(f) }, func() error { return f.Chmod(perm) }, f.Sync, f.Close,
		func() error { return os.Rename(f.Name(), path) },
		func() error { return SyncDir(filepath.Dir(path)) },
	} {
		if err := do(); err != nil {
			return pathError(path, err)
		}
	}
	return nil
}

// temporary matches the names of Replace's temporary files.
var temporary = regexp.MustCompile(`^\..+\.tmp[0-9]+$`)

// Sweep deletes temporary files that killed writers left in a directory. No writer may be active there.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if temporary.MatchString(e.Name()) && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// pathError returns a system error with path instead of the temporary file's name.
func pathError(path string, err error) error {
	switch system := err.(type) {
	case *fs.PathError:
		err = system.Err
	case *os.LinkError:
		err = system.Err
	default:
		return err
	}
	return &fs.PathError{Op: "write", Path: path, Err: err}
}

// SyncDir syncs the names in a directory to disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
