package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"trireme/internal/objectstore"
)

// bucket is the source of the objects that a URL names. A file's name is its key below root.
type bucket struct {
	*session
	store   *objectstore.Client
	kind    string // of repo
	url     string
	root    objectstore.Path
	within  string // below root: "", an object, a directory or a pattern
	single  bool   // within may be an object
	objects map[string]objectstore.Info
}

// modelObjects opens a URL as the directory of a model.
func modelObjects(url string) (*bucket, error) {
	at, err := parseURL(url)
	return &bucket{kind: "model", url: url, root: at}, err
}

// dataObjects opens a URL as an object, a directory, or a pattern.
func dataObjects(url string) (*bucket, error) {
	at, err := parseURL(url)
	b := &bucket{kind: "dataset", url: url, root: at, single: at.Key != "" && !strings.HasSuffix(url, "/")}
	if b.root.Key == "" {
		return b, err
	}
	parts := strings.Split(at.Key, "/")
	n := len(parts) - 1
	for i, part := range parts {
		if strings.ContainsAny(part, patternChars) {
			n, b.single = min(n, i), false
			break
		}
	}
	b.root.Key, b.within = strings.Join(parts[:n], "/"), strings.Join(parts[n:], "/")
	if _, bad := path.Match(b.within, ""); bad != nil {
		return b, &Error{Text: url + ": " + bad.Error(), Try: `close the [, or put \ before it`}
	}
	return b, err
}

func parseURL(url string) (objectstore.Path, error) {
	at, err := objectstore.Parse(url)
	if err != nil {
		return at, objectError(err)
	}
	return at, nil
}

// objects copies objects into the cache.
func (c Client) objects(ctx context.Context, url string, parse func(string) (*bucket, error), choose func(repo) pick) (*Snapshot, error) {
	b, err := parse(url)
	if err != nil {
		return nil, err
	}
	if b.store, err = objectstore.New(ctx, objectstore.Options{}); err != nil {
		return nil, objectError(err)
	}
	b.session = c.newSession()
	b.from = b
	stored := b.root.Bucket
	if b.store.Endpoint() != "AWS" { // bucket names are unique below an endpoint
		sum := sha256.Sum256([]byte(b.store.Endpoint()))
		stored += "@" + hex.EncodeToString(sum[:8])
	}
	cache := c.Objects
	if cache == "" {
		cache = filepath.Join(filepath.Dir(c.Cache), "s3")
	}
	r := repo{kind: b.kind, id: b.url, stored: stored}
	snap, err := b.get(ctx, cachedRepo{cache: cache, repo: r}, Name{ID: b.url}, choose(r), "object stores are disabled (HF_HUB_OFFLINE)")
	if err != nil {
		return nil, err
	}
	snap.within = b.within
	return snap, nil
}

// pickAll selects all files of a listing.
func pickAll(repo) pick {
	return func(l *listing, _ func(string) ([]byte, error)) (w wanted, err error) {
		for _, f := range l.files {
			w.files = append(w.files, f.name)
		}
		return w, nil
	}
}

// fetchListing lists the objects. The commit is a digest of their names, sizes and tags.
func (b *bucket) fetchListing(ctx context.Context, _ repo, _ string) (*listing, error) {
	b.objects = map[string]objectstore.Info{}
	if b.single {
		info, err := b.store.Head(ctx, b.root.Join(b.within))
		switch {
		case err == nil:
			b.objects[b.within] = info
			return b.listing()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, b.failed(ctx, err)
		}
	}
	dir := b.root
	pattern := strings.ContainsAny(b.within, patternChars)
	if b.within != "" && !pattern {
		dir = dir.Join(b.within)
	}
	all, err := b.store.List(ctx, dir)
	if err != nil {
		return nil, b.failed(ctx, err)
	}
	for _, info := range all {
		name := strings.TrimPrefix(strings.TrimPrefix(info.Path.Key, b.root.Key), "/")
		below := strings.TrimPrefix(strings.TrimPrefix(info.Path.Key, dir.Key), "/")
		hidden := strings.HasPrefix(below, ".") || strings.Contains(below, "/.")
		if pattern && globs(b.within, name) || !pattern && !hidden {
			b.objects[name] = info
		}
	}
	if len(b.objects) == 0 {
		return nil, &Error{Kind: ErrNotFound, Text: b.url + " does not exist: no object of that name, and none below it", Try: "aws s3 ls " + b.root.String() + "/", Err: fs.ErrNotExist}
	}
	return b.listing()
}

func (b *bucket) listing() (*listing, error) {
	l := &listing{}
	for name, o := range b.objects {
		version := fmt.Sprintf("%s\x00%d\x00%s", o.Path, o.Size, plainETag(o.Tag))
		if o.Tag == "" {
			version += o.Modified.String()
		}
		sum := sha256.Sum256([]byte(version))
		tag := hex.EncodeToString(sum[:])
		l.files = append(l.files, file{name: name, size: o.Size, git: tag[:40], lfs: tag}) // as of a hub, for the cache's list
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, both := b.objects[dir]; both {
				return nil, &Error{Text: fmt.Sprintf("%s: %s is an object and a directory of objects, which a file system cannot have", b.url, b.root.Join(dir)), Try: "a pattern that matches one of them"}
			}
		}
	}
	if err := l.check(); err != nil {
		return nil, &Error{Text: fmt.Sprintf("the objects of %s: %v", b.url, err), Try: "other keys", Err: err}
	}
	all := sha256.New()
	fmt.Fprintf(all, "%s\n", b.root)
	for _, f := range l.files {
		fmt.Fprintf(all, "%s %s\n", f.lfs, f.name)
	}
	l.commit = hex.EncodeToString(all.Sum(nil))[:40]
	return l, nil
}

// globs reports whether a pattern of data.path matches a name. Between slashes ** matches any number of folders.
func globs(pattern, name string) bool {
	before, after, deep := strings.Cut(pattern, "**/")
	if !deep {
		return matches(pattern, name)
	}
	parts := strings.Split(name, "/")
	k, n := strings.Count(before, "/"), len(parts)-strings.Count(after, "/")-1
	return n >= k && matches(strings.TrimSuffix(before, "/"), strings.Join(parts[:k], "/")) && matches(after, strings.Join(parts[n:], "/"))
}

// locate asks for a checksum, and refuses an object that is not the listed one.
func (b *bucket) locate(ctx context.Context, d *download) (err error) {
	listed := b.objects[d.name]
	d.tag = d.etag()
	if d.hasBlob(d.tag, d.size) {
		return nil
	}
	if d.object, d.sum, err = b.store.Checksum(ctx, listed.Path); err != nil {
		return b.failed(ctx, err)
	}
	if d.object.Size != listed.Size || plainETag(d.object.Tag) != plainETag(listed.Tag) {
		return b.replaced(listed.Path, nil)
	}
	return nil
}

func (b *bucket) replaced(at objectstore.Path, err error) error {
	return &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s was replaced while it was downloaded", at), Try: "the same command when nothing writes it", Err: err}
}

// fill reads the missing bytes. The store's client repeats requests itself.
func (b *bucket) fill(ctx context.Context, p *part) (progress bool, err error) {
	if p.n == p.d.size {
		return true, nil
	}
	o := b.store.Follow(ctx, p.d.object, p.n)
	defer o.Close() // never fails
	err = p.copy(io.NewSectionReader(o, p.n, p.d.size-p.n))
	switch {
	case ctx.Err() != nil:
		return false, stopped(ctx)
	case err != nil:
		return false, err
	case errors.Is(p.readErr, objectstore.ErrReplaced):
		return false, b.replaced(p.d.object.Path, p.readErr)
	case p.readErr != nil:
		return false, b.failed(ctx, p.readErr)
	case p.n < p.d.size:
		return false, &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s has %d bytes, expected %d", p.d.object.Path, p.n, p.d.size), Try: "the same command"}
	}
	return true, nil
}

func (b *bucket) digest(d *download) (sum hash.Hash, want string) { return d.sum.New(), d.sum.Want }

func (b *bucket) String() string { return b.store.Endpoint() }

func (b *bucket) close() {}

// failed is the error of a request.
func (b *bucket) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	e := objectError(err)
	e.Kind = ErrUnreachable
	if errors.Is(err, fs.ErrNotExist) {
		e.Kind = ErrNotFound
	}
	return e
}

// objectError separates an error's text and its suggestion.
func objectError(err error) *Error {
	text, try, _ := strings.Cut(err.Error(), ". try: ")
	return &Error{Text: text, Try: try, Err: err}
}
