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

// WriteFile replaces the file at path by data, with mode 0644, and returns when both the bytes and
// the name are on the disk. It writes a temporary file in the same directory and renames it; after
// an error, an *fs.PathError of path, the old file is as it was and the temporary file is gone.
// Concurrent calls are safe: one of them wins.
func WriteFile(path string, data []byte) error {
	if err := write(path, data); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: cause(err)}
	}
	return nil
}

func write(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	for _, do := range []func() error{func() error { return f.Chmod(0o644) }, f.Sync, f.Close} {
		if err = do(); err != nil {
			return err
		}
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
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

// cause is an error without the temporary file's name.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
