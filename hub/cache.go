package hub

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"trireme/internal/durable"
)

// readRef returns the commit of a revision when it was last fetched; "" if it was not.
func (p cachedRepo) readRef(rev string) string {
	b, err := os.ReadFile(p.dir("refs", filepath.FromSlash(p.ref(rev))))
	commit := strings.TrimSpace(string(b))
	switch {
	case err == nil && isCommit(commit):
		return commit
	case isCommit(rev):
		return rev
	}
	return ""
}

func (p cachedRepo) writeRef(rev, commit string) error {
	if rev == commit || p.readRef(rev) == commit {
		return nil
	}
	return replace(p.dir("refs", filepath.FromSlash(p.ref(rev))), []byte(commit))
}

func (p cachedRepo) snapshot(commit string) string { return p.dir("snapshots", commit) }

// has reports whether a commit's file is in the cache with the right size.
func (p cachedRepo) has(commit string, f file) bool {
	st, err := os.Stat(filepath.Join(p.snapshot(commit), filepath.FromSlash(f.name)))
	return err == nil && st.Mode().IsRegular() && (f.size < 0 || st.Size() == f.size)
}

func (p cachedRepo) blob(etag string) string { return p.dir("blobs", etag) }

func (p cachedRepo) lock(etag string) string {
	return filepath.Join(p.cache, ".locks", p.folder(), etag+".lock")
}

// hasBlob reports whether a blob is in the cache with the right size.
func (p cachedRepo) hasBlob(etag string, size int64) bool {
	st, err := os.Stat(p.blob(etag))
	return err == nil && st.Mode().IsRegular() && st.Size() == size
}

func (p cachedRepo) link(commit, name, etag string) error {
	path := filepath.Join(p.snapshot(commit), filepath.FromSlash(name))
	up := strings.Repeat("../", strings.Count(name, "/")+2)
	target := filepath.FromSlash(up + "blobs/" + etag)
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := vacant(path)
	if err != nil {
		return err
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	return rename(tmp, path)
}

// listing returns what the cache has of a commit: the stored list or, without one, the files in the
// snapshot. nil: nothing.
func (p cachedRepo) listing(commit string) *listing {
	if st, err := os.Stat(p.snapshot(commit)); err != nil || !st.IsDir() {
		return nil
	}
	if l := p.tree(commit); l != nil {
		return l
	}
	l := &listing{commit: commit}
	root := p.snapshot(commit)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if st, gone := os.Stat(path); gone == nil && st.Mode().IsRegular() {
			l.files = append(l.files, file{name: filepath.ToSlash(name), size: st.Size()})
		}
		return err
	})
	if err != nil || l.check() != nil || len(l.files) == 0 {
		return nil
	}
	return l
}

// tree returns the stored list of a commit's files, or nil.
func (p cachedRepo) tree(commit string) *listing {
	b, err := os.ReadFile(p.dir("trees", commit+".json"))
	if err != nil {
		return nil
	}
	l, err := parseTree(commit, b)
	if err != nil {
		return nil
	}
	return l
}

// store records a commit's files, and the names it does not have. Errors are ignored: the records
// only save requests.
func (p cachedRepo) store(l *listing, without []string) {
	if b, ok := formatTree(l); ok {
		path := p.dir("trees", l.commit+".json")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			replace(path, b)
		}
	}
	for _, name := range without {
		path := p.dir(".no_exist", l.commit, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			replace(path, nil)
		}
	}
}

// replace writes a small file atomically.
func replace(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, b)
}

// vacant returns a temporary name beside path.
func vacant(path string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return f.Name(), os.Remove(f.Name())
}

func rename(tmp, path string) error {
	err := os.Rename(tmp, path)
	if err != nil {
		os.Remove(tmp) // the first error is returned
	}
	return err
}
