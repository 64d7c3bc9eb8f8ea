package checkpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"trireme/internal/concurrent"
	"trireme/internal/objectstore"
)

// objects keeps checkpoints in an object store, which renames nothing: an attempt is written where it stays, and is
// a checkpoint once it has its commit record, which is written last, in one request, and only if there is none.
//
// Names are step-N-K-ID: K counts the attempts of step N, so that of two checkpoints of a step the one with the larger
// K is the newer, whatever the clocks. ID begins with the mark of the run: a store has no locks, so a run removes what it
// left itself, and of others only what is old. All paths are s3://BUCKET/KEY.
type objects struct {
	ctx    context.Context // of all requests
	c      *objectstore.Client
	copied []byte // the manifest of the checkpoint that is copied; nil: a save
}

var _ storage = objects{}

func (o objects) within(ctx context.Context) storage { return objects{ctx, o.c, o.copied} }

func (o objects) copying(manifest []byte) (storage, bool) { return objects{o.ctx, o.c, manifest}, true }

func (o objects) Create(path string) (file, error) {
	at, err := objectstore.Parse(path)
	if err != nil {
		return nil, err
	}
	return &objectFile{fs: o, path: at}, nil
}

func (o objects) Open(path string) (file, error) {
	at, err := objectstore.Parse(path)
	if err != nil {
		return nil, err
	}
	r, err := o.c.Open(o.ctx, at)
	if err != nil {
		return nil, err
	}
	return &objectFile{fs: o, path: at, r: r}, nil
}

func (o objects) ReadDir(path string) ([]string, error) {
	at, err := objectstore.Parse(path)
	if err != nil {
		return nil, err
	}
	return o.c.ReadDir(o.ctx, at)
}

func (o objects) Modified(path string) (time.Time, error) {
	at, err := objectstore.Parse(path)
	if err != nil {
		return time.Time{}, err
	}
	info, err := o.c.Head(o.ctx, at)
	return info.Modified, err
}

// attempts lists the directories of a step, or of all steps if it is negative, the newest of a step first.
func (o objects) attempts(dir string, step int) ([]dirName, error) {
	names, err := o.ReadDir(dir)
	if err != nil && !errors.Is(err, errNotExist) {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var found []dirName
	for _, name := range names {
		if n, ok := parseDir(name); ok && n.attempt > 0 && (step < 0 || n.step == step) {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, newestFirst)
	return found, nil
}

func (o objects) begin(dir, run string, step int) (string, error) {
	found, err := o.attempts(dir, -1)
	if err != nil {
		return "", err
	}
	committed := make([]bool, len(found))
	if err := concurrent.Each(filesAtOnce(o), len(found), func(_, i int) (err error) {
		committed[i], err = o.committed(join(dir, found[i].name))
		return err
	}); err != nil {
		return "", err
	}
	last, replaced, continued := 0, false, ""
	var kept dirName // a valid checkpoint of a step with others
	for i, n := range found {
		at := join(dir, n.name)
		if n.step == step {
			last = max(last, n.attempt)
			if continued == "" && !replaced {
				same, err := o.continues(at, n, run)
				if err != nil {
					return "", err
				}
				if same {
					continued = n.name
					continue
				}
			}
			replaced = replaced || committed[i]
		}
		if !committed[i] || kept.name != "" && kept.step == n.step { // interrupted, or replaced
			if err := o.removeOwn(at, run); err != nil {
				return "", err
			}
		} else if i+1 < len(found) && found[i+1].step == n.step {
			if _, err := verify(o, at); err == nil {
				kept = n
			} else if unavailable(err) {
				return "", fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	if err := o.removeUploads(dir, run, continued); err != nil {
		return "", err
	}
	if continued != "" {
		return join(dir, continued), nil
	}
	return join(dir, fmt.Sprintf("%s-%d-%s%s", stepDir(step), last+1, runMark(run), rand.Text()[:attemptIDBytes-len(runMark(run))])), nil
}

// continues reports whether an attempt of this run has the manifest of the checkpoint that is copied: copies write it first.
// It may be committed, if the answer to that was lost.
func (o objects) continues(attempt string, n dirName, run string) (bool, error) {
	if o.copied == nil || n.mark != runMark(run) {
		return false, nil
	}
	there, err := readAll(o, join(attempt, manifestName), int64(len(o.copied)))
	if unavailable(err) {
		return false, fmt.Errorf("checkpoint: %w", err)
	}
	return err == nil && bytes.Equal(there, o.copied), nil
}

// runMark is the part of attempts' names that names their run.
func runMark(run string) string {
	sum := sha256.Sum256([]byte(run))
	return base32.StdEncoding.EncodeToString(sum[:])[:attemptIDBytes/2]
}

// interrupted is the age at which what another run left in an object store is removed: no save takes as long.
const interrupted = 24 * time.Hour

// removeOwn removes a directory of this run, or one that nothing was written to for long.
func (o objects) removeOwn(dir, run string) error {
	if n, ok := parseDir(path.Base(dir)); !ok || n.mark != runMark(run) {
		at, err := objectstore.Parse(dir)
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		all, err := o.c.List(o.ctx, at)
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		if slices.ContainsFunc(all, func(x objectstore.Info) bool { return time.Since(x.Modified) < interrupted }) {
			return nil
		}
	}
	return o.abandon(dir)
}

// removeUploads ends uploads of attempts of this run, except one that is continued, and of others that began long ago. An
// attempt without objects has perhaps begun one.
func (o objects) removeUploads(dir, run, continued string) error {
	at, err := objectstore.Parse(dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	all, err := o.c.Uploads(o.ctx, at)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, u := range all {
		name, _, _ := strings.Cut(strings.TrimPrefix(u.Path.Key, at.Key+"/"), "/")
		if n, ok := parseDir(name); !ok || name == continued || n.mark != runMark(run) && time.Since(u.Began) < interrupted {
			continue
		}
		if err := o.c.RemoveUpload(o.ctx, u); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// committed reports whether a directory has a commit record.
func (o objects) committed(dir string) (bool, error) {
	_, err := o.Modified(join(dir, commitName))
	if errors.Is(err, errNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("checkpoint: %w", err)
	}
	return true, nil
}

func (o objects) publish(dir, attempt string, step int, run string, commit []byte) (string, []string, error) {
	found, err := o.attempts(dir, step)
	if err != nil {
		return "", nil, err
	}
	found = slices.DeleteFunc(found, func(n dirName) bool { return n.name == path.Base(attempt) })
	for _, n := range found {
		if err := checkReplaced(o, join(dir, n.name), run); err != nil {
			return "", nil, err
		}
	}
	at, err := objectstore.Parse(join(attempt, commitName))
	if err != nil {
		return "", nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := o.c.PutNew(o.ctx, at, commit); err != nil {
		return "", nil, fmt.Errorf("checkpoint: %w", err)
	}
	var notices []string
	for _, n := range found {
		if err := o.removeOwn(join(dir, n.name), run); err != nil {
			notices = append(notices, err.Error())
		}
	}
	return attempt, notices, nil
}

// abandon removes the commit record first, so that no partial checkpoint is listed.
func (o objects) abandon(attempt string) error {
	at, err := objectstore.Parse(attempt)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := o.c.Remove(o.ctx, at.Join(commitName)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := o.c.RemoveAll(o.ctx, at); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func (o objects) remove(_, path string) error { return o.abandon(path) }
