package checkpoint

import (
	"context"
	"fmt"
	"time"
)

// Copying is a copy of a checkpoint to another Store, in the background. One rank makes it, without the others.
type Copying struct {
	Step   int
	task   *task
	cancel context.CancelFunc
	saved  SaveResult
}

// StartCopy copies a checkpoint of s, which is not deleted meanwhile, to another Store: its files, then the manifest, and
// the commit record last, after all bytes have been verified. Then checkpoints that to does not keep are deleted. An
// error leaves those that are there. One copy is in progress at a time.
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

// Abort ends the copy and removes its files, if the storage answers within a second. The next one removes the rest.
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
	if err := to.checkEpoch(into); err != nil {
		return saved, err
	}
	attempt, err := into.begin(to.dir, to.run, step)
	if err != nil {
		return saved, err
	}
	if saved.Path, saved.Notices, err = c.into(ctx, to, into, attempt); err != nil {
		return saved, to.abandon(ctx, attempt, err)
	}
	saved.Bytes, saved.Written.End = c.m.bytes(), time.Now()
	saved.Notices = append(saved.Notices, to.retain(ctx, step, protected)...)
	return saved, nil
}

// into writes all files to an attempt of a store and publishes it.
func (c *Checkpoint) into(ctx context.Context, s *Store, to storage, attempt string) (path string, notices []string, err error) {
	for i, f := range c.m.Files {
		from, err := c.file(i)
		if err != nil {
			return "", nil, err
		}
		if err := writeFile(to, join(attempt, f.Name), f.Size, false, func(w file) error { return copyFile(ctx, w, from, f) }); err != nil {
			return "", nil, err
		}
	}
	damage, err := c.Verify(ctx, nil)
	if err != nil {
		return "", nil, err
	}
	if len(damage) > 0 {
		return "", nil, damage[0].Err
	}
	manifest, err := readAll(c.fs, join(c.dir, manifestName), maxManifest)
	if err != nil {
		return "", nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := writeSmall(to, join(attempt, manifestName), manifest); err != nil {
		return "", nil, err
	}
	if err := c.m.verifyFiles(to, attempt); err != nil { // another process may have removed them
		return "", nil, fmt.Errorf("checkpoint: the copy %s: %w", attempt, err)
	}
	if err := s.checkEpoch(to); err != nil {
		return "", nil, err
	}
	return to.publish(s.dir, attempt, c.m.Step, c.m.Run, commitRecord(c.m, manifest))
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
