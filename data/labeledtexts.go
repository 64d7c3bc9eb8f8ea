package data

import (
	"fmt"

	"trireme/fault"
)

// labeledTexts has one text or text pair with a class label per row. Long texts are truncated, but
// keep the tokens that the tokenizer's template puts after them.
type labeledTexts struct {
	file   *tokenFile
	maxLen int
	layout layout
	info   Info
}

var _ Dataset = (*labeledTexts)(nil)

// newLabeledTexts makes a row of each document, truncated to maxLen tokens; 0 is the longest
// document.
func newLabeledTexts(f *tokenFile, l layout, maxLen int) (*labeledTexts, error) {
	around := len(l.before) + len(l.between) + len(l.after)
	switch {
	case maxLen == 0:
		maxLen = f.longest
	case maxLen <= around:
		return nil, fault.Try(fmt.Errorf("data: sequence_length %d leaves no room for text: the tokenizer adds %d tokens around it", maxLen, around), "%s or more", fault.Set("data.sequence_length", around+1))
	}
	d := &labeledTexts{file: f, maxLen: maxLen, layout: l}
	d.info = Info{MaxID: f.maxID, Classes: true, Types: l.typed(), Length: min(f.longest, maxLen), Skipped: int(f.skipped)}
	for i := range f.docs {
		n := int(f.end(i) - f.begin(i))
		if n > maxLen {
			d.info.Truncated++
		}
		d.info.Tokens += int64(min(n, maxLen))
		d.info.LabelCount++
	}
	return d, nil
}

func (d *labeledTexts) Len() int { return d.file.docs }

func (d *labeledTexts) Info() Info { return d.info }

func (d *labeledTexts) Where(i int) string { return d.file.where(i) }

func (d *labeledTexts) Close() error { return d.file.close() }

func (d *labeledTexts) Tokens(i int) int { return min(d.maxLen, int(d.file.end(i)-d.file.begin(i))) }

// Row fills r with row i. Its tokens have no labels.
func (d *labeledTexts) Row(i int, r *Row) (err error) {
	if r.InputIDs, err = d.file.read(r.InputIDs[:0], d.file.begin(i), d.file.end(i)); err != nil {
		return err
	}
	r.InputIDs, r.Types = d.layout.truncate(r.InputIDs, d.maxLen, r.Types)
	r.Labels, r.Docs, r.Class = r.Labels[:0], r.Docs[:0], d.file.docClass(i)
	for range r.InputIDs {
		r.Labels = append(r.Labels, Ignored)
	}
	if !d.info.Types {
		r.Types = r.Types[:0]
	}
	return nil
}
