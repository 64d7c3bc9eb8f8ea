package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"trireme/fault"
	"trireme/internal/durable"
	"trireme/internal/flock"
	"trireme/tokenizer"
)

// cacheDir returns c's directory for things of a kind, and creates it.
func (c Config) cacheDir(kind string) (string, error) {
	dir := c.CacheDir
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fault.Try(fmt.Errorf("data: no cache directory: %w", err), "%s", fault.Set("data.cache_dir", "DIR"))
		}
		dir = filepath.Join(user, "trireme")
	}
	dir = filepath.Join(dir, kind)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fault.Try(fmt.Errorf("data: cache: %w", err), "%s", fault.Set("data.cache_dir", "DIR"))
	}
	return dir, nil
}

// digest identifies a source without reading it: by paths, sizes and times of its files, and extra.
func (s *source) digest(extra ...string) (sum [32]byte, err error) {
	h := sha256.New()
	fmt.Fprintf(h, "2\n%s %q %v\n%q\n", s.format, s.field, s.lenient, extra)
	if s.parts != nil {
		fmt.Fprintf(h, "%v\n", s.parts)
	}
	for _, f := range s.files {
		st, err := os.Stat(f)
		if err != nil {
			return sum, fmt.Errorf("data: %w", err)
		}
		abs, err := filepath.Abs(f)
		if err != nil {
			return sum, fmt.Errorf("data: %w", err)
		}
		fmt.Fprintf(h, "%q %d %d\n", abs, st.Size(), st.ModTime().UnixNano())
	}
	return [32]byte(h.Sum(nil)), nil
}

// examples returns what enc makes of the records, as a token file in the cache. The first process
// writes it, others wait. tok is enc's tokenizer.
func (s *source) examples(ctx context.Context, c Config, enc encoder, tok *tokenizer.Tokenizer) (*tokenFile, error) {
	name := tok.Digest()
	digest, err := s.digest(string(name[:]), enc.fingerprint())
	if err != nil {
		return nil, err
	}
	return s.cached(ctx, c, digest, func(f *os.File) error { return s.write(ctx, checked{enc, tok}, tok.VocabSize(), f, digest) })
}

// checked is an encoder that reports errors of its tokenizer.
type checked struct {
	encoder
	tok *tokenizer.Tokenizer
}

func (c checked) encode(r *record, ex *example) (bool, error) {
	ok, err := c.encoder.encode(r, ex)
	if failed := c.tok.Err(); failed != nil {
		return false, failed
	}
	return ok, err
}

// cached returns the token file of a digest from the cache; make writes it if missing.
func (s *source) cached(ctx context.Context, c Config, digest [32]byte, make func(*os.File) error) (*tokenFile, error) {
	dir, err := c.cacheDir("tokens")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, hex.EncodeToString(digest[:16])+".tok")
	open := func() (*tokenFile, error) {
		t, err := openTokens(path)
		if err != nil {
			return nil, err
		}
		if t.digest != digest {
			return nil, errors.Join(fmt.Errorf("data: %s has another digest", path), t.close())
		}
		t.path, t.files, t.at, t.cached = s.path, s.files, path, true
		return t, nil
	}
	if t, err := open(); err == nil {
		return t, nil
	}
	removeStale(dir)
	unlock, err := flock.Lock(ctx, path+".lock", 0o600, nil)
	if err != nil {
		return nil, fmt.Errorf("data: cache: %w", err)
	}
	defer unlock()
	if t, err := open(); err == nil {
		return t, nil
	}
	if err := durable.Replace(path, 0o600, make); err != nil {
		return nil, err
	}
	return open()
}

// removeStale removes partial files of killed processes, whose lock is free.
func removeStale(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, "*.tmp*"))
	for _, f := range left {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(f), "."), ".tmp")
		lock, held, err := flock.TryLock(filepath.Join(dir, name+".lock"), 0o600)
		if err != nil {
			continue
		}
		if held {
			os.Remove(f)
		}
		lock.Close()
	}
}

// write writes what enc makes of the records as a token file of ids below vocab; 0 is any.
func (s *source) write(ctx context.Context, enc encoder, vocab int, f *os.File, digest [32]byte) (err error) {
	w, err := newTokenWriter(f, vocab)
	if err != nil {
		return fmt.Errorf("data: cache: %w", err)
	}
	defer w.close()
	w.skipped, err = s.encode(ctx, enc, func(d *document) error {
		if err := w.add(d); err != nil {
			return fmt.Errorf("data: cache: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case w.docs == 0 && w.skipped > 0:
		return fault.Try(fmt.Errorf("data: %s: none of %d rows has labels", s.path, w.skipped), "data.columns, if the texts have other keys, or data.roles_to_train, if the answers are not by the assistant")
	case w.docs == 0:
		return fault.Try(fmt.Errorf("data: %s has no rows", s.path), "another data.path")
	}
	if err := w.finish(digest); err != nil {
		return fmt.Errorf("data: cache: %w", err)
	}
	return nil
}

// TrainTokenizer trains a byte-level BPE of vocab tokens on the texts of c, or loads it from the
// cache. One of several concurrent processes trains, the others wait.
func TrainTokenizer(ctx context.Context, c Config, vocab int) (*tokenizer.Tokenizer, error) {
	s, _, err := c.sources()
	if err != nil {
		return nil, err
	}
	ids := s.format == FormatTokens
	if !ids {
		first, err := s.first()
		if err != nil {
			return nil, err
		}
		_, ids = first.fields["input_ids"]
	}
	if ids {
		return nil, fault.Try(fmt.Errorf("data: %s has token ids: a tokenizer is trained on text", c.Path), "text")
	}
	digest, err := s.digest("bpe", fmt.Sprint(vocab))
	if err != nil {
		return nil, err
	}
	parent, err := c.cacheDir("tokenizers")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(parent, hex.EncodeToString(digest[:16]))
	unlock, err := flock.Lock(ctx, dir+".lock", 0o600, nil)
	if err != nil {
		return nil, fmt.Errorf("data: cache: %w", err)
	}
	defer unlock()
	tok, err := tokenizer.Load(dir)
	if err == nil {
		return tok, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("data: cache: %w", err)
		}
	}
	var failed error
	tok, err = tokenizer.Train(ctx, func(yield func(string) bool) {
		failed = s.eachRecord(func(r *record) error {
			text, err := r.text(s.field)
			if err != nil {
				return rowError(r.where, err)
			}
			if !yield(text) {
				return errStop
			}
			return nil
		})
	}, tokenizer.TrainOptions{VocabSize: vocab})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(parent, "new*")
	if err != nil {
		return nil, fmt.Errorf("data: cache: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := tok.Save(temp); err != nil {
		return nil, err
	}
	if err := os.Rename(temp, dir); err != nil {
		return nil, fmt.Errorf("data: cache: %w", err)
	}
	return tok, nil
}
