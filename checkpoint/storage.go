package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trireme/fault"
	"trireme/internal/objectstore"
)

// fileStore is where checkpoints are: their files are written once and read. A fileSystem and an object store have it.
type fileStore interface {
	// Create opens a file for writing, creating it if needed.
	Create(path string) (file, error)
	// Open opens a file for reading. It returns an error for pipes, devices and directories, without
	// blocking.
	Open(path string) (file, error)
	// ReadDir returns names.
	ReadDir(path string) ([]string, error)
	// Modified returns the time of the last change of a file.
	Modified(path string) (time.Time, error)
}

// storage holds the checkpoints of a run. It has the operations that make a save a checkpoint and delete one. A directory
// of a save in progress is called an attempt.
type storage interface {
	fileStore
	// within returns the storage with requests that end with ctx, if it has requests.
	within(ctx context.Context) storage
	// copying returns the storage for a copy of the checkpoint with a manifest. If it continues, begin returns the attempt of
	// a copy of that checkpoint that was interrupted, and files of it are continued; else all attempts are new.
	copying(manifest []byte) (fs storage, continues bool)
	// begin removes what interrupted saves and removals of a run left in dir, and returns a new directory of an attempt.
	begin(dir, run string, step int) (attempt string, err error)
	// publish makes an attempt, which has all but its commit record, the checkpoint of its step, atomically, and removes
	// the one that it replaces. One of another run is not replaced.
	publish(dir, attempt string, step int, run string, commit []byte) (path string, notices []string, err error)
	// abandon removes an attempt that failed.
	abandon(attempt string) error
	// remove deletes a checkpoint of dir. No partial checkpoint is listed at any time.
	remove(dir, path string) error
}

// storageAt returns the storage of a path.
func storageAt(path string) (storage, error) {
	if !objectstore.IsURL(path) {
		return renaming{disk{}}, nil
	}
	if _, err := objectstore.Parse(path); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	c, err := objectstore.New(context.Background(), objectstore.Options{})
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", path, err)
	}
	return objects{ctx: context.Background(), c: c}, nil
}

// filesAtOnce is the number of files that are opened at a time: those of an object store wait for the network.
func filesAtOnce(fs fileStore) int {
	if _, ok := fs.(objects); ok {
		return 8
	}
	return 1
}

// storageOf returns the storage of a path, which is fs if the path is in dir's kind of storage.
func storageOf(fs storage, dir, path string) (storage, error) {
	if objectstore.IsURL(dir) == objectstore.IsURL(path) {
		return fs, nil
	}
	return storageAt(path)
}

// join appends names to a path of any storage.
func join(path string, names ...string) string { return objectstore.Join(path, names...) }

// unavailable reports whether an error says nothing about a checkpoint, because its storage did not answer.
func unavailable(err error) bool { return errors.Is(err, objectstore.ErrUnavailable) }

// checkReplaced refuses to replace a checkpoint of another run, and one that cannot be read now.
func checkReplaced(fs fileStore, path, run string) error {
	m, err := verify(fs, path)
	if unavailable(err) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err == nil && !owns(run, Candidate{Run: m.Run}) {
		return fault.Try(fmt.Errorf("checkpoint: %s belongs to another run (%s) and is not replaced", path, m.Run), "another output_dir, or another checkpoint.dir")
	}
	return nil
}
