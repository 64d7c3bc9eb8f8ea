package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// renaming keeps checkpoints in a file system: an attempt has a name of its own and is renamed when all is
// durable.
type renaming struct{ fileSystem }

var _ storage = renaming{}

func (d renaming) within(context.Context) storage { return d }

// copying continues nothing: a file has its full size from the start, so nothing says which bytes are durable.
func (d renaming) copying([]byte) (storage, bool) { return d, false }

// begin removes unfinished saves and creates the temporary directory. The lock of the directory keeps other runs out.
func (d renaming) begin(dir, _ string, step int) (string, error) {
	if err := d.MkdirAll(dir); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	if err := d.syncParents(dir); err != nil {
		return "", err
	}
	if err := d.sweep(dir); err != nil {
		return "", err
	}
	tmp := filepath.Join(dir, fmt.Sprintf("%s%s-%s", tempPrefix, stepDir(step), rand.Text()[:8]))
	if err := d.MkdirAll(tmp); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	return tmp, nil
}

// syncParents makes the names of the directory and its parent durable, since both may be new. The
// parent's parent may be unreadable for this user.
func (d renaming) syncParents(dir string) error {
	up := filepath.Dir(dir)
	for i, dir := range []string{up, filepath.Dir(up)} {
		if err := d.SyncDir(dir); err != nil && !(i > 0 && errors.Is(err, fs.ErrPermission)) {
			return fmt.Errorf("checkpoint: sync %s: %w", dir, err)
		}
	}
	return nil
}

// publish writes and syncs the commit record, and renames the directory to its final name. An existing one of that name
// is set aside first; List still finds it until the new one is durable.
func (d renaming) publish(dir, tmp string, step int, run string, commit []byte) (path string, notices []string, err error) {
	if err := writeSmall(d, filepath.Join(tmp, commitName), commit); err != nil {
		return "", nil, err
	}
	if err := d.SyncDir(tmp); err != nil {
		return "", nil, fmt.Errorf("checkpoint: sync %s: %w", tmp, err)
	}
	final := filepath.Join(dir, stepDir(step))
	names, err := d.ReadDir(dir)
	if err != nil {
		return "", nil, fmt.Errorf("checkpoint: %w", err)
	}
	replaced := ""
	if slices.Contains(names, stepDir(step)) {
		if err := checkReplaced(d, final, run); err != nil {
			return "", nil, err
		}
		replaced = filepath.Join(dir, fmt.Sprintf("%s%s-%s", replacedPrefix, stepDir(step), rand.Text()[:8]))
		if err := d.Rename(final, replaced); err != nil {
			return "", nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	if err := d.Rename(tmp, final); err != nil {
		if replaced != "" {
			err = alsoFailed(err, d.Rename(replaced, final))
		}
		return "", nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := d.SyncDir(dir); err != nil {
		return "", nil, fmt.Errorf("checkpoint: sync %s: %w", dir, err)
	}
	if replaced != "" {
		if err := d.remove(dir, replaced); err != nil {
			notices = append(notices, err.Error())
		}
	}
	return final, notices, nil
}

func (d renaming) abandon(tmp string) error {
	if err := d.RemoveAll(tmp); err != nil {
		return fmt.Errorf("checkpoint: remove %s: %w", tmp, err)
	}
	return nil
}

// remove deletes a directory. It renames it first, so that no partial checkpoint has a checkpoint's
// name.
func (d renaming) remove(dir, path string) error {
	if name := filepath.Base(path); !strings.HasPrefix(name, tempPrefix) {
		gone := filepath.Join(dir, tempPrefix+"removed-"+strings.TrimLeft(name, "."))
		if err := d.RemoveAll(gone); err != nil {
			return fmt.Errorf("checkpoint: remove %s: %w", gone, err)
		}
		if err := d.Rename(path, gone); err != nil {
			return fmt.Errorf("checkpoint: remove %s: %w", path, err)
		}
		if err := d.SyncDir(dir); err != nil {
			return fmt.Errorf("checkpoint: remove %s: sync %s: %w", path, dir, err)
		}
		path = gone
	}
	return d.abandon(path)
}

// sweep deletes the files of interrupted saves and restores checkpoints that they set aside.
func (d renaming) sweep(dir string) error {
	names, err := d.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		n, ok := parseDir(name)
		switch {
		case strings.HasPrefix(name, tempPrefix):
			err = d.remove(dir, path)
		case ok && n.replaced:
			err = d.finishReplace(dir, path, n.step)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishReplace completes an interrupted replacement: it keeps the new checkpoint if valid, else the old
// one.
func (d renaming) finishReplace(dir, replaced string, step int) error {
	final := filepath.Join(dir, stepDir(step))
	if _, err := verify(d, final); err == nil {
		return d.remove(dir, replaced)
	}
	if _, err := verify(d, replaced); err != nil {
		return nil // neither is valid: leave both to the user
	}
	if err := d.remove(dir, final); err != nil && !errors.Is(err, errNotExist) {
		return err
	}
	if err := d.Rename(replaced, final); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := d.SyncDir(dir); err != nil {
		return fmt.Errorf("checkpoint: sync %s: %w", dir, err)
	}
	return nil
}
