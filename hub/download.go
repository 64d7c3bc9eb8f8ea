package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"trireme/internal/flock"
	"trireme/internal/objectstore"
)

const downloads = 4

// download is a file being downloaded into the cache.
type download struct {
	cachedRepo
	commit string
	file
	tag string // of the content, the blob's name

	object objectstore.Info // of a bucket, and its checksum
	sum    objectstore.Checksum
}

// locate requests a file's size and digest if the listing does not have them.
func (s *server) locate(ctx context.Context, d *download) error {
	d.tag = d.etag()
	if d.tag != "" && d.size >= 0 {
		return nil
	}
	return s.retry(ctx, tries, func() (bool, error) {
		a, err := s.do(ctx, http.MethodHead, s.resolve(d.repo, d.commit, d.name), nil, true)
		if err != nil {
			return false, err
		}
		defer a.Body.Close()
		if a.StatusCode >= 400 {
			return false, s.responseError(a, d.repo, d.commit, d.name)
		}
		d.tag, d.size = a.etag, a.size
		if !validETag(d.tag, 40) && !validETag(d.tag, 64) || d.size < 0 || d.size > maxFile {
			return false, &Error{Kind: ErrUnreachable, Text: fmt.Sprintf("%s does not send the size and digest of %s in %s (size %d, tag %q): not a hub, or a proxy changes its headers", s.base, d.name, d.repo, d.size, readable(d.tag))}
		}
		if a.commit != "" && a.commit != d.commit {
			return false, &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("requested %s of %s at commit %s, %s sent commit %s", d.name, d.repo, d.commit, s.base, readable(a.commit))}
		}
		return true, nil
	})
}

// fetch downloads a file's blob, unless it exists or another process does, and links it.
func (s *session) fetch(ctx context.Context, d *download) error {
	lock := d.lock(d.tag) // also used by huggingface_hub
	err := os.MkdirAll(filepath.Dir(lock), 0o755)
	var unlock func() error
	if err == nil {
		unlock, err = flock.Lock(ctx, lock, 0o664, func() {
			s.show.note("%s: waiting for another process to download it", d.name)
		})
	}
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case err != nil:
		return fmt.Errorf("hub: %w", err)
	}
	defer unlock()
	if d.hasBlob(d.tag, d.size) {
		s.show.add(d.size, true)
	} else if err := s.fetchBlob(ctx, d); err != nil {
		return err
	}
	if err := d.link(d.commit, d.name, d.tag); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	s.show.fileDone()
	return nil
}

// fetchBlob resumes the download of a blob.
func (s *session) fetchBlob(ctx context.Context, d *download) (err error) {
	path := d.blob(d.tag)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	f, err := os.OpenFile(path+incomplete, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer func() {
		if closed := f.Close(); err == nil && closed != nil {
			err = fmt.Errorf("hub: %w", closed)
		}
		switch {
		case errors.Is(err, ErrCorrupt):
			os.Remove(f.Name()) // or every retry would resume it
		case errors.Is(err, syscall.ENOSPC):
			err = &Error{Text: fmt.Sprintf("no space left in %s for %s of %s", d.cache, d.name, d.repo), Try: "HF_HOME=DIR on another disk", Err: err}
		case err == nil:
			if err = rename(f.Name(), path); err != nil {
				err = fmt.Errorf("hub: %w", err)
			}
		}
	}()
	p := &part{f: f, d: d, show: s.show, digest: s.from.digest}
	if err := p.resume(); err != nil {
		return err
	}
	if err := s.retry(ctx, tries, func() (bool, error) { return s.from.fill(ctx, p) }); err != nil {
		return err
	}
	return p.finish()
}

// incomplete is the suffix of a partial blob.
const incomplete = ".incomplete"

// fill requests the missing bytes of a part and writes them.
func (s *server) fill(ctx context.Context, p *part) (progress bool, err error) {
	if p.n == p.d.size {
		return true, nil
	}
	header, from := http.Header{}, p.n
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	a, err := s.do(ctx, http.MethodGet, s.resolve(p.d.repo, p.d.commit, p.d.name), header, false)
	if err != nil {
		return false, err
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return false, errors.Join(p.restart(), s.incomplete(p, "the server has no bytes from %d", from))
	}
	if err := s.responseError(a, p.d.repo, p.d.commit, p.d.name); err != nil {
		return false, err
	}
	if a.StatusCode == http.StatusPartialContent && !strings.HasPrefix(a.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)) {
		return false, errors.Join(p.restart(), s.incomplete(p, "requested bytes from %d, received %s", from, readable(a.Header.Get("Content-Range"))))
	}
	if a.StatusCode != http.StatusPartialContent && from > 0 {
		if err := p.restart(); err != nil { // the server sends the whole file
			return false, err
		}
	}
	if want := p.d.size - p.n; a.ContentLength >= 0 && a.ContentLength != want {
		return false, s.incomplete(p, "Content-Length is %d, but %d bytes are missing", a.ContentLength, want)
	}
	err = p.copy(a.Body)
	progress = p.n > p.most
	p.most = max(p.most, p.n)
	switch {
	case ctx.Err() != nil:
		return false, stopped(ctx)
	case err != nil:
		return false, err
	case p.n < p.d.size:
		return progress, s.incomplete(p, "connection closed after %d of %d bytes%s", p.n, p.d.size, p.why())
	}
	return true, nil
}

// incomplete is the error of a response that is not the file's bytes.
func (s *server) incomplete(p *part, format string, args ...any) error {
	text := fmt.Sprintf("%s of %s from %s: ", p.d.name, p.d.repo, s.base) + fmt.Sprintf(format, args...)
	return &transient{err: &Error{Kind: ErrUnreachable, Text: text, Try: "the same command: it resumes the download", Err: p.readErr}}
}

// part is a partial blob: its first n bytes and their digest.
type part struct {
	f       *os.File
	d       *download
	show    *progress
	digest  func(*download) (hash.Hash, string)
	sum     hash.Hash
	want    string // digest; "": unknown
	n       int64
	most    int64 // maximum of n
	readErr error // error of the last response, if any
}

// resume digests the bytes on disk.
func (p *part) resume() error {
	p.start()
	n, err := io.Copy(p.sum, io.LimitReader(p.f, p.d.size))
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	p.n, p.most = n, n
	p.show.add(n, true)
	if err := p.f.Truncate(n); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

func (p *part) restart() error {
	p.show.add(-p.n, false)
	p.start()
	p.n = 0
	if err := p.f.Truncate(0); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

func (p *part) start() { p.sum, p.want = p.digest(p.d) }

// digest is SHA-256 for LFS files, else git's, which includes the length.
func (s *server) digest(d *download) (sum hash.Hash, want string) {
	sum = sha256.New()
	if len(d.tag) == 40 {
		sum = sha1.New()
		fmt.Fprintf(sum, "blob %d\x00", d.size)
	}
	return sum, d.tag
}

// copy appends the body, up to the missing bytes. A body that ends early is not an error.
func (p *part) copy(from io.Reader) error {
	p.readErr = nil
	buf := make([]byte, 256<<10)
	for {
		n, err := from.Read(buf)
		if p.n+int64(n) > p.d.size {
			return &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s of %s: received more than %d bytes", p.d.name, p.d.repo, p.d.size)}
		}
		if n > 0 {
			if _, err := p.f.WriteAt(buf[:n], p.n); err != nil {
				return fmt.Errorf("hub: %w", err)
			}
			p.sum.Write(buf[:n])
			p.n += int64(n)
			p.show.add(int64(n), false)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			p.readErr = err
			return nil
		}
	}
}

func (p *part) why() string {
	if p.readErr == nil {
		return ""
	}
	return ": " + readable(p.readErr.Error())
}

// finish verifies the digest and syncs the file.
func (p *part) finish() error {
	if got := hex.EncodeToString(p.sum.Sum(nil)); p.want != "" && got != p.want {
		return &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s of %s has digest %s, expected %s: the download is deleted", p.d.name, p.d.repo, got, p.want), Try: "the same command; if it fails again, the server or a proxy changes files"}
	}
	if err := p.f.Sync(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}
