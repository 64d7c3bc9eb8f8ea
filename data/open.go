package data

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"trireme/tokenizer"
)

// Sets is what a configuration names.
type Sets struct {
	Train Dataset
	Eval  Dataset // nil where nothing is held out
	all   []Dataset
}

// Open opens what c trains on and what it holds out. tok turns text into tokens; it may be
// nil for files that hold token ids. Token ids must be below vocab; 0 does not check. Text
// is tokenised once and kept in the cache, by one of the processes that ask for it; ctx
// ends that.
func Open(ctx context.Context, c Config, tok *tokenizer.Tokenizer, vocab int) (*Sets, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	train, err := c.open(ctx, c.Path, tok, vocab)
	if err != nil {
		return nil, err
	}
	s := &Sets{Train: train, all: []Dataset{train}}
	switch {
	case c.EvalPath != "":
		if s.Eval, err = c.open(ctx, c.EvalPath, tok, vocab); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.all = append(s.all, s.Eval)
	case c.EvalFraction > 0:
		s.Train, s.Eval = Split(train, c.EvalFraction)
		if s.Eval.Len() == 0 {
			err := fmt.Errorf("data: eval_fraction %v of %d rows is none", c.EvalFraction, train.Len())
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close closes the datasets.
func (s *Sets) Close() error {
	var errs []error
	for _, d := range s.all {
		errs = append(errs, d.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

func (c Config) open(ctx context.Context, path string, tok *tokenizer.Tokenizer, vocab int) (Dataset, error) {
	s, err := openSource(c, path)
	if err != nil {
		return nil, err
	}
	if s.rows {
		return OpenRows(s.files, RowsOptions{MaxLength: c.SequenceLength, Truncate: c.Truncate, Vocab: vocab})
	}
	length := c.SequenceLength
	if length == 0 {
		length = textLength
	}
	var f *tokenFile
	switch {
	case s.format == FormatTokens && len(s.files) > 1:
		return nil, fmt.Errorf("data: %s names %d token files; one is read", path, len(s.files))
	case s.format == FormatTokens:
		f, err = openTokens(s.files[0])
	case tok == nil:
		return nil, s.needsTokenizer()
	case vocab > 0 && tok.Vocab() > vocab:
		return nil, fmt.Errorf("data: %s has %d tokens, the model's vocabulary %d: they do not belong together", strings.TrimSpace("the tokenizer "+c.Tokenizer), tok.Vocab(), vocab)
	default:
		f, err = s.tokenised(ctx, c, tok)
	}
	if err != nil {
		return nil, err
	}
	d, err := s.rowsOf(f, c, length)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return d, nil
}

// needsTokenizer is the error for text without a tokenizer. A JSON line that is neither a
// row nor has a text is the likelier mistake.
func (s *source) needsTokenizer() error {
	if s.format == FormatJSONL {
		err := eachLine(s.files[0], func(line []byte, number int) error {
			if _, err := s.text(line); err != nil {
				return fmt.Errorf("data: %s:%d: no input_ids and %w", s.files[0], number, err)
			}
			return errStop
		})
		if !errors.Is(err, errStop) && err != nil {
			return err
		}
	}
	return fmt.Errorf("data: %s is text, and there is no tokenizer. try: --set data.tokenizer=DIR", s.path)
}

// rowsOf makes rows of a token file.
func (s *source) rowsOf(f *tokenFile, c Config, length int) (Dataset, error) {
	if c.Packing {
		return newPacked(f, s.path, length, c.DocumentMask)
	}
	d, long, err := newDocuments(f, s.path, length, c.Truncate)
	if err == nil {
		return d, nil
	}
	if long < 0 {
		return nil, err
	}
	where := fmt.Sprintf("%s (document %d)", s.path, long+1)
	if s.format != FormatTokens {
		n := 0
		found := s.documents(func(d document) error {
			if n == long {
				where = d.where
				return errStop
			}
			n++
			return nil
		})
		if found != nil && !errors.Is(found, errStop) {
			return nil, found
		}
	}
	return nil, fmt.Errorf("data: %s: %w", where, err)
}
