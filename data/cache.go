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
	"runtime"

	"trireme/tokenizer"
)

// cacheDir is where c keeps things of a kind; it is made.
func (c Config) cacheDir(kind string) (string, error) {
	dir := c.CacheDir
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("data: no cache directory: %w. try: --set data.cache_dir=DIR", err)
		}
		dir = filepath.Join(user, "trireme")
	}
	dir = filepath.Join(dir, kind)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("data: cache: %w. try: --set data.cache_dir=DIR", err)
	}
	return dir, nil
}

// digest names what a source holds, without reading it: paths, sizes and times of its
// files. extra is whatever else the result depends on.
func (s *source) digest(extra ...string) (sum [32]byte, err error) {
	h := sha256.New()
	fmt.Fprintf(h, "1\n%s %q\n%q\n", s.format, s.field, extra)
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

// tokenised gives the source as a token file. The first process to ask makes it, others
// that ask for the same wait for that.
func (s *source) tokenised(ctx context.Context, c Config, tok *tokenizer.Tokenizer) (*tokenFile, error) {
	name := tok.Digest()
	digest, err := s.digest(string(name[:]))
	if err != nil {
		return nil, err
	}
	dir, err := c.cacheDir("tokens")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, hex.EncodeToString(digest[:16])+".tok")
	open := func() (*tokenFile, bool) {
		t, err := openTokens(path)
		if err == nil && t.digest != digest {
			t.close()
		}
		return t, err == nil && t.digest == digest
	}
	if t, ok := open(); ok {
		return t, nil
	}
	unlock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return nil, fmt.Errorf("data: cache: %w", err)
	}
	defer unlock()
	if t, ok := open(); ok {
		return t, nil
	}
	var unread error // of the texts, which names its file itself
	err = atomically(path, func(f *os.File) error {
		w, err := newTokenWriter(f, tok.Vocab())
		if err != nil {
			return err
		}
		if unread = s.tokenise(ctx, tok, w.add); unread != nil {
			return unread
		}
		return w.finish(digest)
	})
	switch {
	case unread != nil:
		return nil, unread
	case err != nil:
		return nil, fmt.Errorf("data: tokenise %s: %w", s.path, err)
	}
	return openTokens(path)
}

// atomically writes a file so that there is either all of it or none.
func atomically(path string, write func(*os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// tokenise hands over the tokens of every document, in order: what the tokenizer's template
// puts before it, the text, and one EOS. Documents are encoded in parallel.
func (s *source) tokenise(ctx context.Context, tok *tokenizer.Tokenizer, add func([]int32) error) error {
	type job struct {
		text string
		ids  chan []int32
	}
	workers := runtime.GOMAXPROCS(0)
	work, order := make(chan job), make(chan job, 4*workers)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range workers {
		go func() {
			for j := range work {
				ids := tok.Encode(j.text, tokenizer.Options{Template: true})
				if eos := tok.EOS(); eos >= 0 && (len(ids) == 0 || ids[len(ids)-1] != eos) {
					ids = append(ids, eos)
				}
				j.ids <- ids
			}
		}()
	}
	go func() {
		defer close(order)
		defer close(work)
		err := s.documents(func(d document) error {
			j := job{d.text, make(chan []int32, 1)}
			for _, to := range []chan job{work, order} {
				select {
				case to <- j:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
		if err != nil {
			cancel(err)
		}
	}()
	var failed error
	for j := range order {
		if failed != nil {
			continue
		}
		if failed = add(<-j.ids); failed != nil {
			cancel(failed)
		}
	}
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// LearnTokenizer learns a byte-level BPE of vocab tokens from the texts that c names, or
// takes the one from the cache that was learned from the same files before. Of several
// processes that ask at once, one learns.
func LearnTokenizer(ctx context.Context, c Config, vocab int) (*tokenizer.Tokenizer, error) {
	s, err := openSource(c, c.Path)
	if err != nil {
		return nil, err
	}
	if s.rows || s.format == FormatTokens {
		return nil, fmt.Errorf("data: %s holds token ids: no tokenizer can be learned from it", c.Path)
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
	unlock, err := lockFile(ctx, dir+".lock")
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
		failed = s.documents(func(d document) error {
			if !yield(d.text) {
				return errStop
			}
			return nil
		})
	}, tokenizer.TrainOptions{VocabSize: vocab})
	if failed != nil && !errors.Is(failed, errStop) {
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
