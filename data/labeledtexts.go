package data

import (
	"fmt"

	"trireme/fault"
)

// labeledTexts is texts with a label each. One that is longer than a row loses its end, but not
// the token that a text ends with.
type labeledTexts struct {
	file   *tokenFile
	most   int
	layout layout
	info   Info
}

var _ Dataset = (*labeledTexts)(nil)

// newLabeledTexts makes a row of each document, of at most most tokens; 0 is the longest's.
func newLabeledTexts(f *tokenFile, l layout, most int) (*labeledTexts, error) {
	around := len(l.before) + len(l.between) + len(l.after)
	switch {
	case most == 0:
		most = f.longest
	case most <= around:
		return nil, fault.Try(fmt.Errorf("data: sequence_length %d leaves no room for text beside the %d tokens that the tokenizer puts around it", most, around), "%s or more", fault.Set("data.sequence_length", around+1))
	}
	d := &labeledTexts{file: f, most: most, layout: l}
	d.info = Info{MaxID: f.maxID, Classes: true, Types: l.typed(), Length: min(f.longest, most), Skipped: int(f.skipped)}
	for i := range f.docs {
		n := int(f.end(i) - f.begin(i))
		if n > most {
			d.info.Truncated++
		}
		d.info.Tokens += int64(min(n, most))
		d.info.LabelCount++
	}
	return d, nil
}

// Len is the number of rows.
func (d *labeledTexts) Len() int { return d.file.docs }

// Info is what the rows have in common.
func (d *labeledTexts) Info() Info { return d.info }

// Where names the file and the line of row i.
func (d *labeledTexts) Where(i int) string { return d.file.where(i) }

// Close unmaps the file.
func (d *labeledTexts) Close() error { return d.file.close() }

// Tokens is the length of row i.
func (d *labeledTexts) Tokens(i int) int { return min(d.most, int(d.file.end(i)-d.file.begin(i))) }

// Row fills r with row i. Nothing is to be learned of its tokens.
func (d *labeledTexts) Row(i int, r *Row) error {
	r.InputIDs = d.file.read(r.InputIDs[:0], d.file.begin(i), d.file.end(i))
	r.InputIDs, r.Types = d.layout.cut(r.InputIDs, d.most, r.Types)
	r.Labels, r.Docs, r.Class = r.Labels[:0], r.Docs[:0], d.file.docClass(i)
	for range r.InputIDs {
		r.Labels = append(r.Labels, Ignored)
	}
	if !d.info.Types {
		r.Types = r.Types[:0]
	}
	return nil
}
