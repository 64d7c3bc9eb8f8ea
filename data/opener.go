package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tokenizer"
)

type opener struct {
	Config
	ModelInfo
	tok    *tokenizer.Tokenizer
	labels *labels      // of the training rows, used for the evaluation set too
	files  []*tokenFile // opened so far
}

// masking returns the Masking of rows without labels.
func (o *opener) masking(s *source) (*Masking, error) {
	if o.tok == nil {
		return nil, fault.Try(fmt.Errorf("data: masking the rows of %s needs a tokenizer: they have no labels of their own", s.path), "%s", fault.Set("data.tokenizer", "DIR"))
	}
	return newMasking(o.tok, o.MLMProbability)
}

// open opens a source and returns the format of its rows.
func (o *opener) open(ctx context.Context, s *source) (d Dataset, format string, err error) {
	if s.format == FormatTokens {
		d, err := o.openTokenFiles(s)
		return d, FormatTokens, err
	}
	first, err := s.first()
	if err != nil {
		return nil, "", err
	}
	if format, err = o.rowFormat(s, first, o.Task); err != nil {
		return nil, "", err
	}
	if err = o.checkTask(o.Config, format, first); err != nil {
		return nil, "", err
	}
	if format == FormatInputIDs {
		d, err := o.openRows(ctx, s)
		return d, format, err
	}
	switch {
	case o.tok == nil:
		return nil, "", fault.Try(fmt.Errorf("data: %s is text and needs a tokenizer", s.path), "%s; to train one: trireme tokenize --train --output DIR TEXT", fault.Set("data.tokenizer", "DIR"))
	case o.Vocab > 0 && o.tok.VocabSize() > o.Vocab:
		return nil, "", fault.Try(fmt.Errorf("data: %s has %d tokens, but the model's vocabulary has %d", strings.TrimSpace("the tokenizer "+o.Tokenizer), o.tok.VocabSize(), o.Vocab), "%s, for the tokenizer's size", fault.Set("model.vocab_size", "auto"))
	}
	if format == FormatClassification {
		d, err := o.openLabeled(ctx, s, first)
		return d, format, err
	}
	enc, err := o.encoderOf(format, first, o.tok)
	if err != nil {
		return nil, "", err
	}
	if text, ok := enc.(*textEncoder); ok {
		s.sameCut = text.sameCut
	}
	f, err := s.examples(ctx, o.Config, enc, o.tok)
	if err != nil {
		return nil, "", err
	}
	o.files = append(o.files, f)
	if hasAnswers(format) {
		d, err = o.dataset(f, o.packs(false), 0, selectConfig{minLen: 2, answers: true})
	} else {
		d, err = o.dataset(f, o.packs(true), textLength, selectConfig{minLen: 2, text: true})
	}
	return d, format, err
}

// openTokenFiles opens token files as one dataset.
func (o *opener) openTokenFiles(s *source) (Dataset, error) {
	all := &concat{}
	for _, path := range s.files {
		f, err := openTokens(path)
		o.files = append(o.files, f)
		if err == nil && f.plain && (o.DocumentMask || !o.packs(true)) {
			err = errors.Join(fault.Try(fmt.Errorf("data: %s has no document boundaries, which data.document_mask and data.packing: false need", path), "data.packing: true without data.document_mask"), f.close())
		}
		var d Dataset
		if err == nil {
			d, err = o.dataset(f, o.packs(true), textLength, selectConfig{minLen: 2, text: true})
		}
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all.add(d)
	}
	if len(all.parts) == 1 {
		return all.parts[0], nil
	}
	return all, nil
}

func (o *opener) openRows(ctx context.Context, s *source) (Dataset, error) {
	f, err := s.rows(ctx, o.Config)
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, f)
	for i := range f.docs {
		if o.Task != SequenceClassification {
			break
		}
		if class := f.docClass(i); class < 0 {
			err = fault.Try(fmt.Errorf("data: %s: no label, but the model is for sequence classification", f.where(i)), "a label in each row")
		} else if o.Labels > 0 && int(class) >= o.Labels {
			err = fmt.Errorf("data: %s: %w", f.where(i), classError("label", int64(class), o.Labels))
		}
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return o.dataset(f, false, 0, selectConfig{minLen: 1})
}

func (o *opener) openLabeled(ctx context.Context, s *source, first *record) (Dataset, error) {
	cols := o.columns().withAliases(first, FormatClassification)
	pair := cols.has(first, "text_pair")
	l, err := layoutOf(o.tok, pair)
	if err != nil {
		return nil, err
	}
	names, err := o.labelsOf(s, cols, first)
	if err != nil {
		return nil, err
	}
	f, err := s.examples(ctx, o.Config, &classEncoder{o.tok, cols, pair, names}, o.tok)
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, f)
	maxLen := o.SequenceLength
	if maxLen == 0 {
		maxLen = o.Positions
	}
	d, err := newLabeledTexts(f, l, maxLen)
	if err == nil {
		err = f.checkVocab(o.Vocab)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return d, nil
}

// dataset makes rows of a token file, which it closes on errors: packed, or one per selected
// document. length is the default sequence_length, limited to the model's positions; 0 is the
// longest document.
func (o *opener) dataset(f *tokenFile, packed bool, length int, choose selectConfig) (d Dataset, err error) {
	if o.SequenceLength > 0 {
		length = o.SequenceLength
	} else if o.Positions > 0 {
		length = min(length, o.Positions)
	}
	choose.maxLen, choose.truncate = length, o.Truncate
	if packed && !choose.answers {
		d, err = newPackedText(f, length, o.DocumentMask)
	} else {
		var sel *selection
		if sel, err = f.selectDocs(choose); err == nil && packed {
			d = newPackedDocuments(sel, sel.maxLen)
		} else if err == nil {
			d = &documents{sel}
		}
	}
	if err == nil {
		err = f.checkVocab(o.Vocab)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return d, nil
}

// smallRows is the size of files with token ids, in bytes, up to which each process reads them
// itself instead of using the cache.
const smallRows = 16 << 20

// rows returns a source of token ids as a token file.
func (s *source) rows(ctx context.Context, c Config) (*tokenFile, error) {
	enc := rowEncoder{}
	digest, err := s.digest(enc.fingerprint())
	if err != nil {
		return nil, err
	}
	write := func(f *os.File) error { return s.write(ctx, enc, 0, f, digest) }
	if s.total > smallRows {
		return s.cached(ctx, c, digest, write)
	}
	f, err := disk.Unnamed("")
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	if err := write(f); err != nil {
		return nil, err
	}
	t, err := mapTokens(f, s.path)
	if err == nil {
		t.files = s.files
	}
	return t, err
}
