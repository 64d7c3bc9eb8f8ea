package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"trireme/internal/objectstore"
)

// Snapshot is a commit of a repository in the cache.
type Snapshot struct {
	Name   Name     // as requested
	Commit string   // of the revision
	Dir    string   // directory of the commit's files
	Files  []string // the selected files: sorted slash-separated paths in Dir

	others []string // the commit's other files
	within string   // of objects, the path or pattern of Files in Dir; "": all of it
}

// Pinned returns the name with the commit as revision, which is immutable, or the URL of objects.
func (s *Snapshot) Pinned() string {
	n := s.Name
	if objectstore.IsURL(n.ID) {
		return n.ID // an object has no commits
	}
	n.Revision = s.Commit
	return n.String()
}

// pick selects files of a listing. read returns the content of one of them.
type pick func(l *listing, read func(name string) ([]byte, error)) (wanted, error)

type wanted struct {
	files  []string
	spare  []string // of files, optional if they cannot be fetched
	hasNot []string // names not in the listing
}

// maxRead bounds the files read by a pick, in bytes.
const maxRead = 64 << 20

// get downloads the files that choose selects.
func (c Client) get(ctx context.Context, r repo, n Name, choose pick) (*Snapshot, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	defer s.from.close()
	return s.get(ctx, cachedRepo{cache: c.Cache, repo: r}, n, choose, "the hub is disabled (HF_HUB_OFFLINE)")
}

// get returns a snapshot of p; offline is the message without a network.
func (s *session) get(ctx context.Context, p cachedRepo, n Name, choose pick, offline string) (*Snapshot, error) {
	if s.Offline {
		return s.cached(p, n, choose, &Error{Kind: ErrNotFound, Text: offline, Try: "a local path, or HF_HUB_OFFLINE=0 to download from " + s.from.String()})
	}
	if n.Pinned() {
		if l := p.tree(n.Revision); l != nil { // immutable: no request needed
			return s.bring(ctx, p, n, l, choose)
		}
	}
	l, err := s.from.fetchListing(ctx, p.repo, n.revision())
	if err != nil {
		return s.fallBack(ctx, p, n, choose, err)
	}
	return s.bring(ctx, p, n, l, choose)
}

// fallBack uses the cache if the file list cannot be fetched.
func (s *session) fallBack(ctx context.Context, p cachedRepo, n Name, choose pick, cause error) (*Snapshot, error) {
	var e *Error
	if ctx.Err() != nil || !errors.As(cause, &e) || e.Kind == nil || errors.Is(cause, errNoRevision) || errors.Is(cause, fs.ErrNotExist) {
		return nil, cause
	}
	snap, err := s.cached(p, n, choose, e)
	if err == nil {
		s.show.note("warning: %s; using %s from the cache", e.Text, p.of("commit "+snap.Commit))
	}
	return snap, err
}

// cached returns a snapshot from the cache alone; why is the reason for messages.
func (s *session) cached(p cachedRepo, n Name, choose pick, why *Error) (*Snapshot, error) {
	fail := func(text string) error {
		return &Error{Kind: why.Kind, Text: why.Text + ", and " + text, Try: why.Try, Err: why.Err}
	}
	rev := n.revision()
	commit := p.readRef(rev)
	if commit == "" {
		return nil, fail(fmt.Sprintf("the cache %s has no %s", p.cache, p.at(rev)))
	}
	l := p.listing(commit)
	if l == nil {
		return nil, fail(fmt.Sprintf("the cache %s has no files of %s, commit %s", p.cache, p.at(rev), commit))
	}
	w, err := choose(l, func(name string) ([]byte, error) {
		if f, ok := l.find(name); !ok || !p.has(commit, f) {
			return nil, fail(fmt.Sprintf("the cache %s lacks %s of %s", p.cache, name, p.repo))
		}
		return readSmall(filepath.Join(p.snapshot(commit), filepath.FromSlash(name)))
	})
	if err != nil {
		return nil, err
	}
	spare := map[string]bool{}
	for _, name := range w.spare {
		spare[name] = true
	}
	var files, missing []string
	for _, name := range w.files {
		switch f, ok := l.find(name); {
		case ok && p.has(commit, f):
			files = append(files, name)
		case !spare[name]:
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fail(fmt.Sprintf("the cache %s lacks %d of %d files of %s, such as %s", p.cache, len(missing), len(w.files), p.repo, missing[0]))
	}
	return newSnapshot(p, n, l, files), nil
}

func newSnapshot(p cachedRepo, n Name, l *listing, files []string) *Snapshot {
	s := &Snapshot{Name: n, Commit: l.commit, Dir: p.snapshot(l.commit), Files: files}
	chosen := map[string]bool{}
	for _, name := range files {
		chosen[name] = true
	}
	for _, f := range l.files {
		if !chosen[f.name] {
			s.others = append(s.others, f.name)
		}
	}
	return s
}

func readSmall(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("hub: %w", err)
	case st.Size() > maxRead:
		return nil, &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s has %s, too large", path, size(st.Size()))}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return b, nil
}

// bring downloads the files that choose selects and the cache does not have.
func (s *session) bring(ctx context.Context, p cachedRepo, n Name, l *listing, choose pick) (*Snapshot, error) {
	w, err := choose(l, func(name string) ([]byte, error) {
		if err := s.fetchAll(ctx, p, n, l, []string{name}, true); err != nil {
			return nil, err
		}
		return readSmall(filepath.Join(p.snapshot(l.commit), filepath.FromSlash(name)))
	})
	if err != nil {
		return nil, err
	}
	if err := s.fetchAll(ctx, p, n, l, w.files, false); err != nil {
		return nil, err
	}
	p.store(l, w.hasNot)
	// Last: a commit in refs has all its files. A cache filled by others may be read-only.
	if err := p.writeRef(n.revision(), l.commit); err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return newSnapshot(p, n, l, w.files), nil
}

// fetchAll downloads files of a listing, several at once.
func (s *session) fetchAll(ctx context.Context, p cachedRepo, n Name, l *listing, names []string, quiet bool) error {
	var missing []*download
	for _, name := range names {
		f, ok := l.find(name)
		if !ok {
			return &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s at %s has no file %s", p.repo, s.from, name)}
		}
		if !p.has(l.commit, f) {
			missing = append(missing, &download{cachedRepo: p, commit: l.commit, file: f})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := inParallel(ctx, missing, s.from.locate); err != nil {
		return err
	}
	var total, needed int64
	for _, d := range missing {
		total += d.size
		needed += d.size - min(d.size, d.onDisk())
	}
	if err := os.MkdirAll(p.dir("blobs"), 0o755); err != nil {
		return &Error{Text: "cannot write the cache: " + err.Error(), Try: "HF_HOME=DIR", Err: err}
	}
	if err := s.fits(p, needed); err != nil {
		return err
	}
	if quiet {
		return inParallel(ctx, missing, s.fetch)
	}
	s.show.start(ctx, n.String(), len(missing), total)
	err := inParallel(ctx, missing, s.fetch)
	s.show.finish(err == nil)
	return err
}

// onDisk is the number of bytes of a download on disk.
func (d *download) onDisk() int64 {
	for _, path := range []string{d.blob(d.tag), d.blob(d.tag) + incomplete} {
		if st, err := os.Stat(path); err == nil {
			return st.Size()
		}
	}
	return 0
}

// fits returns an error if the disk has not enough space.
func (s *session) fits(p cachedRepo, needed int64) error {
	free, err := freeBytes(p.dir())
	if err != nil {
		return err
	}
	if s.free != nil {
		free = s.free()
	}
	if free < needed {
		return &Error{Text: fmt.Sprintf("%s needs %s more in %s, which has %s free", p.repo, size(needed), p.cache, size(free)), Try: "HF_HOME=DIR on another disk"}
	}
	return nil
}

// inParallel calls f for all, a few at once; the first error stops the others.
func inParallel(ctx context.Context, all []*download, f func(context.Context, *download) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var first error
	var running sync.WaitGroup
	work := make(chan *download)
	for range min(downloads, len(all)) {
		running.Go(func() {
			for d := range work {
				if ctx.Err() != nil {
					continue
				}
				if err := f(ctx, d); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					cancel(err)
				}
			}
		})
	}
	for _, d := range all {
		work <- d
	}
	close(work)
	running.Wait()
	if first == nil && ctx.Err() != nil {
		return stopped(ctx)
	}
	return first
}
