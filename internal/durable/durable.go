// Package durable replaces small files so that a crash, a full disk or a power cut leaves the old
// file or the new one, never a part of one.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// WriteFile replaces the file at path by data, with mode 0644. It is Replace for what is in memory.
func WriteFile(path string, data []byte) error {
	return Replace(path, 0o644, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Replace replaces the file at path by what fill writes, and returns when both the bytes and the name
// are on the disk. It writes a temporary file in the same directory and renames it; after an error the
// old file is as it was and the temporary file is gone. An error of fill is returned as it is, but for
// the temporary file's name; others are an *fs.PathError of path. Concurrent calls are safe: one of
// them wins.
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

// temporary is the name that write gives its temporary files.
var temporary = regexp.MustCompile(`^\..+\.tmp[0-9]+$`)

// Sweep deletes the temporary files that writers left in a directory when they were killed. Nobody
// may be writing there.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if temporary.MatchString(e.Name()) && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// pathError is an error pathError the system with path in place pathError the temporary file's name.
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

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
