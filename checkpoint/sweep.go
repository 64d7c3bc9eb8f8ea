package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// remove deletes a directory. It renames it first, so that no partial checkpoint has a checkpoint's
// name.
func (s *Store) remove(path string) error {
	if name := filepath.Base(path); !strings.HasPrefix(name, tempPrefix) {
		gone := filepath.Join(s.dir, tempPrefix+"removed-"+strings.TrimLeft(name, "."))
		if err := s.fs.RemoveAll(gone); err != nil {
			return fmt.Errorf("checkpoint: remove %s: %w", gone, err)
		}
		if err := s.fs.Rename(path, gone); err != nil {
			return fmt.Errorf("checkpoint: remove %s: %w", path, err)
		}
		if err := s.fs.SyncDir(s.dir); err != nil {
			return fmt.Errorf("checkpoint: remove %s: sync %s: %w", path, s.dir, err)
		}
		path = gone
	}
	if err := s.fs.RemoveAll(path); err != nil {
		return fmt.Errorf("checkpoint: remove %s: %w", path, err)
	}
	return nil
}

// sweep deletes the files of interrupted saves and restores checkpoints that they set aside.
func (s *Store) sweep() error {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		step, replaced, ok := parseDir(name)
		switch {
		case strings.HasPrefix(name, tempPrefix):
			err = s.remove(path)
		case ok && replaced:
			err = s.finishReplace(path, step)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishReplace completes an interrupted replacement: it keeps the new checkpoint if valid, else the old
// one.
func (s *Store) finishReplace(replaced string, step int) error {
	final := filepath.Join(s.dir, stepDir(step))
	if _, err := verify(s.fs, final); err == nil {
		return s.remove(replaced)
	}
	if _, err := verify(s.fs, replaced); err != nil {
		return nil // neither is valid: leave both to the user
	}
	if err := s.remove(final); err != nil && !errors.Is(err, errNotExist) {
		return err
	}
	if err := s.fs.Rename(replaced, final); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("checkpoint: sync %s: %w", s.dir, err)
	}
	return nil
}

// Remove deletes a checkpoint of dir. No partial checkpoint has a checkpoint's name at any time. The caller holds the
// lock of the run.
func Remove(dir, path string) error {
	s := Store{dir: dir, fs: disk{}}
	return s.remove(path)
}
