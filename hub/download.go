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
)

// downloads is how many files are fetched at once.
const downloads = 4

// download is one file on its way into the cache.
type download struct {
	cachedRepo
	commit string
	file
	tag string // its blob's name, a digest of its content
}

// locate asks where a listing does not say how large a file is and what its digest is.
func (s *session) locate(ctx context.Context, d *download) error {
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
			return false, s.refused(a, d.repo, d.commit, d.name)
		}
		d.tag, d.size = a.etag, a.size
		if !validETag(d.tag, 40) && !validETag(d.tag, 64) || d.size < 0 || d.size > maxFile {
			return false, &Error{Kind: ErrUnreachable, Text: fmt.Sprintf("%s does not say the size and digest of %s in %s (size %d, tag %q): it is no hub, or something stands between", s.base, d.name, d.repo, d.size, readable(d.tag))}
		}
		if a.commit != "" && a.commit != d.commit {
			return false, &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("asked for %s of %s at commit %s, %s answers of commit %s", d.name, d.repo, d.commit, s.base, readable(a.commit))}
		}
		return true, nil
	})
}

// fetch brings a file's blob into the cache, unless it is there or another process brings it,
// and links it.
func (s *session) fetch(ctx context.Context, d *download) error {
	lock := d.lock(d.tag) // which huggingface_hub takes too
	err := os.MkdirAll(filepath.Dir(lock), 0o755)
	var unlock func() error
	if err == nil {
		unlock, err = flock.Lock(ctx, lock, 0o664, func() {
			s.show.note("%s: waiting for another process that fetches it", d.name)
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

// fetchBlob goes on with what has come of a blob so far.
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
			os.Remove(f.Name()) // or every later try would go on with it
		case errors.Is(err, syscall.ENOSPC):
			err = &Error{Text: fmt.Sprintf("the disk of %s is full: %s of %s does not fit", d.cache, d.name, d.repo), Try: "HF_HOME=DIR on another disk", Err: err}
		case err == nil:
			if err = rename(f.Name(), path); err != nil {
				err = fmt.Errorf("hub: %w", err)
			}
		}
	}()
	p := &part{f: f, d: d, show: s.show}
	if err := p.resume(); err != nil {
		return err
	}
	if err := s.retry(ctx, tries, func() (bool, error) { return s.fill(ctx, p) }); err != nil {
		return err
	}
	return p.finish()
}

// incomplete ends the name of a blob that is under way.
const incomplete = ".incomplete"

// fill asks for what is missing of a part, and writes what comes.
func (s *session) fill(ctx context.Context, p *part) (forward bool, err error) {
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
		return false, errors.Join(p.restart(), s.cut(p, "the server has no bytes from %d on", from))
	}
	if err := s.refused(a, p.d.repo, p.d.commit, p.d.name); err != nil {
		return false, err
	}
	if a.StatusCode == http.StatusPartialContent && !strings.HasPrefix(a.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)) {
		return false, errors.Join(p.restart(), s.cut(p, "asked for the bytes from %d on, it sends %s", from, readable(a.Header.Get("Content-Range"))))
	}
	if a.StatusCode != http.StatusPartialContent && from > 0 {
		if err := p.restart(); err != nil { // it sends all
			return false, err
		}
	}
	if want := p.d.size - p.n; a.ContentLength >= 0 && a.ContentLength != want {
		return false, s.cut(p, "%d bytes are announced where %d are missing", a.ContentLength, want)
	}
	err = p.copy(a.Body)
	forward = p.n > p.most
	p.most = max(p.most, p.n)
	switch {
	case ctx.Err() != nil:
		return false, stopped(ctx)
	case err != nil:
		return false, err
	case p.n < p.d.size:
		return forward, s.cut(p, "it broke off after %d of %d bytes%s", p.n, p.d.size, p.why())
	}
	return true, nil
}

// cut is the failure of an answer that did not bring the file's bytes.
func (s *session) cut(p *part, format string, args ...any) error {
	text := fmt.Sprintf("%s of %s from %s: ", p.d.name, p.d.repo, s.base) + fmt.Sprintf(format, args...)
	return &transient{err: &Error{Kind: ErrUnreachable, Text: text, Try: "the same again: it goes on where it stopped", Err: p.broke}}
}

// part is a blob under way: the first n bytes of it, and their digest.
type part struct {
	f     *os.File
	d     *download
	show  *progress
	sum   hash.Hash
	n     int64
	most  int64 // that n ever was
	broke error // why the last answer ended early, if it said so
}

// resume counts and digests what is there.
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

// restart forgets all bytes.
func (p *part) restart() error {
	p.show.add(-p.n, false)
	p.start()
	p.n = 0
	if err := p.f.Truncate(0); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// start begins the digest that the blob is named by: of a file in large file storage SHA-256,
// of another git's, which has the length in it.
func (p *part) start() {
	p.sum = sha256.New()
	if len(p.d.tag) == 40 {
		p.sum = sha1.New()
		fmt.Fprintf(p.sum, "blob %d\x00", p.d.size)
	}
}

// copy appends what comes, no more than is missing. A body that ends early is no error here.
func (p *part) copy(from io.Reader) error {
	p.broke = nil
	buf := make([]byte, 256<<10)
	for {
		n, err := from.Read(buf)
		if p.n+int64(n) > p.d.size {
			return &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s of %s: more than the announced %d bytes came", p.d.name, p.d.repo, p.d.size)}
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
			p.broke = err
			return nil
		}
	}
}

func (p *part) why() string {
	if p.broke == nil {
		return ""
	}
	return ": " + readable(p.broke.Error())
}

// finish compares digests, and puts the bytes where a loss of power does not reach them.
func (p *part) finish() error {
	if got := hex.EncodeToString(p.sum.Sum(nil)); got != p.d.tag {
		return &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s of %s came with the digest %s, not %s: what came is deleted", p.d.name, p.d.repo, got, p.d.tag), Try: "the same again; if it happens again, the server or what stands between changes files"}
	}
	if err := p.f.Sync(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}
