package data

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"trireme/fault"
	"trireme/tokenizer"
)

// Sets holds the datasets that a configuration names.
type Sets struct {
	Train  Dataset
	Eval   Dataset  // the evaluation set; nil: none
	Format string   // of the training rows: a value of Config.Format
	Labels []string // names of the class labels, by id; nil: the files have ids
	Splits string   // which splits of Path are used and which are not; "": no splits
	Notes  []string // further notes on the files, such as shards without rows
	// End is the tokenizer's end-of-text token, for rows with answers and rows of token ids, whose
	// own end token may differ. Else nil.
	End *EndToken
	// Masking selects the tokens to mask for MaskedLM; nil if rows have labels of their own.
	Masking *Masking
	all     []Dataset

	train, eval []*tokenFile // of Train, and of Eval if it has files of its own
	tokenizer   string       // see Fingerprint
}

// EndToken is a tokenizer's end-of-text token.
type EndToken struct {
	ID   int32
	Name string
}

// Open opens the training and evaluation sets of c. tok may be nil for files of token ids. Files are
// tokenized once into the cache: the first process does it, others wait for it, until ctx ends.
// report, if not nil, receives progress from a single goroutine.
func Open(ctx context.Context, c Config, model ModelInfo, tok *tokenizer.Tokenizer, report func(Progress)) (*Sets, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	train, eval, err := c.sources()
	if err != nil {
		return nil, err
	}
	splits := train.splits
	for _, s := range []*source{train, eval} {
		if s != nil {
			s.report = report
		}
	}
	o := &opener{Config: c, ModelInfo: model, tok: tok}
	s := &Sets{Splits: splits, Notes: train.notes}
	if tok != nil {
		digest := tok.Digest()
		s.tokenizer = hex.EncodeToString(digest[:16])
	}
	if s.Train, s.Format, err = o.open(ctx, train); err != nil {
		return nil, err
	}
	s.train, o.files = o.files, nil
	if o.labels != nil {
		s.Labels = o.labels.names
	}
	if tok != nil && tok.EOS() >= 0 && model.Task == CausalLM && (hasAnswers(s.Format) || s.Format == FormatInputIDs) {
		s.End = &EndToken{tok.EOS(), tok.Token(tok.EOS())}
	}
	s.all = []Dataset{s.Train}
	if model.Task == MaskedLM && !s.Train.Info().Labels {
		if s.Masking, err = o.masking(train); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	switch {
	case eval != nil:
		if s.Eval, _, err = o.open(ctx, eval); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.all = append(s.all, s.Eval)
		s.eval = o.files
	case c.EvalFraction > 0:
		rows := s.Train.Len()
		s.Train, s.Eval = Split(s.Train, c.EvalFraction)
		if s.Eval.Len() == 0 {
			err := fault.Try(fmt.Errorf("data: eval_fraction %v of %d rows selects no row", c.EvalFraction, rows), "a larger one, or data.eval_path")
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// SequenceLength is the row length of these sets: sequence_length, or the length of the longest row
// if that is 0 or with pad_to_longest.
func (s *Sets) SequenceLength(c Config) int {
	if c.SequenceLength > 0 && !c.PadToLongest {
		return c.SequenceLength
	}
	n := s.Train.Info().Length
	if s.Eval != nil {
		n = max(n, s.Eval.Info().Length)
	}
	return n
}

// Close closes the datasets.
func (s *Sets) Close() error {
	var errs []error
	for _, d := range s.all {
		errs = append(errs, d.Close())
	}
	s.all, s.train, s.eval = nil, nil, nil
	return errors.Join(errs...)
}

// sources finds the files of the training and evaluation sets; eval may be nil.
func (c Config) sources() (train, eval *source, err error) {
	f, err := c.find(c.Path)
	if err != nil {
		return nil, nil, err
	}
	files := f.files
	if f.splits != nil {
		files = f.splits[splitTrain]
	}
	files, without := withRows(files)
	evalOn := f.evalSplit()
	if c.EvalPath != "" || c.EvalFraction > 0 || c.EvalSplit != "" {
		evalOn = ""
	}
	if c.Split != "" {
		train, err = c.slicedSource("split", c.Path, c.Split, f, false)
		if takes(c.Split, evalOn) {
			evalOn = ""
		}
	} else {
		train, err = c.newSource(c.Path, files)
	}
	if err != nil {
		return nil, nil, err
	}
	train.notes = emptyNote(f.empty, without)
	if note := f.unreadNote(c.Path); note != "" && c.Split == "" {
		train.notes = append(train.notes, note)
	}
	if train.splits = c.splitSummary(evalOn); train.splits == "" {
		train.splits = f.summary(evalOn)
	}
	switch {
	case c.EvalSplit != "":
		path := c.Path
		if c.EvalPath != "" {
			path = c.EvalPath
			if f, err = c.find(path); err != nil {
				return nil, nil, err
			}
		}
		eval, err = c.slicedSource("eval_split", path, c.EvalSplit, f, c.EvalPath != "")
	case c.EvalPath != "":
		if f, err = c.find(c.EvalPath); err != nil {
			return nil, nil, err
		}
		if files = f.splits[f.evalSplit()]; files == nil {
			files = f.files
		}
		eval, err = c.newSource(c.EvalPath, files)
	case evalOn != "":
		eval, err = c.newSource(c.Path, f.splits[evalOn])
	}
	if eval != nil && train.sharesRows(eval) {
		train.notes = append(train.notes, "training and evaluation sets overlap. try: data.split and data.eval_split without common rows")
	}
	return train, eval, err
}

// HasEval reports whether c has an evaluation set.
func (c Config) HasEval() (bool, error) {
	if c.EvalPath != "" || c.EvalFraction > 0 || c.EvalSplit != "" {
		return true, nil
	}
	f, err := c.find(c.Path)
	return err == nil && f.evalSplit() != "", err
}

func (c Config) find(path string) (f found, err error) {
	if c.Format == FormatGoSource {
		f.files, err = GoSource(path, c.MaxBytes)
		return f, err
	}
	return findFiles(path, c.kind())
}
