package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Copying is a copy of a checkpoint to another Store, in the background. One rank makes it, without the others.
type Copying struct {
	Step   int
	task   *task
	cancel context.CancelFunc
	saved  SaveResult
}

// StartCopy copies a checkpoint of s, which is not deleted meanwhile, to another Store: after all its bytes have been
// verified the manifest and the files, and the commit record last. Then checkpoints that to does not keep are deleted. An
// error leaves those that are there. In an object store a copy that was interrupted, because its process or the store went
// away, is continued by the next one of the same checkpoint, of any process of the run; other saves and copies of the run
// remove it. One copy is in progress at a time.
func (s *Store) StartCopy(ctx context.Context, path string, step int, to *Store) *Copying {
	c := &Copying{Step: step}
	ctx, c.cancel = context.WithCancel(ctx)
	s.copied.Store(int64(step) + 1)
	protected := to.protected
	c.task = start(func() (err error) {
		defer s.copied.Store(0)
		c.saved, err = s.copy(ctx, path, step, to, protected)
		return err
	})
	return c
}

// Ended reports whether the copy has ended.
func (c *Copying) Ended() bool { return c.task.ended() }

// Wait returns the result of the copy when it has ended.
func (c *Copying) Wait() (SaveResult, error) {
	defer c.cancel()
	err := c.task.wait()
	return c.saved, err
}

// Abort ends the copy. An object store keeps its files for the next one; a file system does not.
func (c *Copying) Abort() {
	c.cancel()
	<-c.task.done
}

func (s *Store) copy(ctx context.Context, path string, step int, to *Store, protected int) (saved SaveResult, err error) {
	saved.Written.Began = time.Now()
	from, into := s.fs.within(ctx), to.fs.within(ctx)
	c, err := open(from, path)
	if err != nil {
		return saved, err
	}
	defer c.Close()
	if to.run == "" {
		to.run = c.m.Run
	}
	manifest, err := readAll(from, join(path, manifestName), maxManifest)
	if err != nil {
		return saved, fmt.Errorf("checkpoint: %w", err)
	}
	// Before anything is sent, so a copy that continues an attempt finds only verified bytes there.
	damage, err := c.Verify(ctx, nil)
	if err != nil {
		return saved, err
	}
	if len(damage) > 0 {
		return saved, damage[0].Err
	}
	if err := to.checkEpoch(into); err != nil {
		return saved, err
	}
	into, continues := into.copying(manifest)
	attempt, err := into.begin(to.dir, to.run, step)
	if err != nil {
		return saved, err
	}
	saved.Path, saved.Kept, saved.Notices, err = c.into(ctx, to, into, attempt, manifest)
	switch {
	case err == nil:
	case continues && (ctx.Err() != nil || unavailable(err) || errors.Is(err, errLater)): // the next copy continues it, or a later start has
		return saved, err
	default:
		return saved, to.abandon(ctx, attempt, err)
	}
	saved.Bytes, saved.Written.End = c.m.bytes(), time.Now()
	saved.Notices = append(saved.Notices, to.retain(ctx, step, protected)...)
	return saved, nil
}

// into writes what an attempt of a store does not have yet and publishes it. kept is the number of bytes of files that it
// had.
func (c *Checkpoint) into(ctx context.Context, s *Store, to storage, attempt string, manifest []byte) (path string, kept int64, notices []string, err error) {
	there, err := to.ReadDir(attempt)
	if err != nil && !errors.Is(err, errNotExist) {
		return "", 0, nil, fmt.Errorf("checkpoint: %w", err)
	}
	if !slices.Contains(there, manifestName) { // what the attempt is a copy of
		if err := writeSmall(to, join(attempt, manifestName), manifest); err != nil {
			return "", 0, nil, err
		}
	}
	for i, f := range c.m.Files {
		had, err := c.send(ctx, to, attempt, i, slices.Contains(there, f.Name))
		if err != nil {
			return "", 0, nil, err
		}
		kept += had
	}
	if err := c.m.verifyFiles(to, attempt); err != nil { // another process may have removed them
		return "", 0, nil, fmt.Errorf("checkpoint: the copy %s: %w", attempt, err)
	}
	if err := s.checkEpoch(to); err != nil {
		return "", 0, nil, err
	}
	path, notices, err = to.publish(s.dir, attempt, c.m.Step, c.m.Run, commitRecord(c.m, manifest))
	return path, kept, notices, err
}

// send writes a file to an attempt, without what is there of it. kept is the size of that.
func (c *Checkpoint) send(ctx context.Context, to storage, attempt string, i int, there bool) (kept int64, err error) {
	f := c.m.Files[i]
	if there {
		err := verifyFile(to, attempt, f)
		if err == nil {
			return f.Size, nil
		}
		if unavailable(err) {
			return 0, fmt.Errorf("checkpoint: %s %w", join(attempt, f.Name), err)
		}
	}
	from, err := c.file(i)
	if err != nil {
		return 0, err
	}
	var out file
	if err := writeFile(to, join(attempt, f.Name), f.Size, false, func(w file) error {
		out = w
		return copyFile(ctx, w, from, f)
	}); err != nil {
		return 0, err
	}
	if w, ok := out.(interface{ kept() int64 }); ok {
		kept = w.kept()
	}
	return kept, nil
}

func copyFile(ctx context.Context, to, from file, f manifestFile) error {
	buf := make([]byte, chunkBytes)
	for at := int64(0); at < f.Size; at += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("checkpoint: copy %s: %w", f.Name, context.Cause(ctx))
		}
		b := buf[:min(int64(len(buf)), f.Size-at)]
		if n, err := from.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("checkpoint: copy %s: %w", f.Name, err)
		}
		if err := writeAt(to, b, at, f.Name); err != nil {
			return err
		}
	}
	return nil
}
