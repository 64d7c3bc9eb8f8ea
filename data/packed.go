package data

import (
	"fmt"
	"sort"

	"trireme/fault"
)

// packedText is documents concatenated and split into rows of one length. The remainder is dropped.
type packedText struct {
	file   *tokenFile
	length int
	docs   bool
}

// documents has one document of a token file per row.
type documents struct{ *selection }

var (
	_ Dataset = (*packedText)(nil)
	_ Dataset = (*documents)(nil)
)

// newPackedText makes rows of length tokens, with Docs if docs.
func newPackedText(f *tokenFile, length int, docs bool) (*packedText, error) {
	if f.tokens < int64(length) {
		return nil, fault.Try(fmt.Errorf("data: %s has %d tokens, less than one row of sequence_length %d", f.path, f.tokens, length), "%s, or more text", fault.Set("data.sequence_length", max(2, f.tokens)))
	}
	return &packedText{f, length, docs}, nil
}

func (p *packedText) Len() int { return int(p.file.tokens / int64(p.length)) }

func (p *packedText) Info() Info {
	n := int64(p.Len()) * int64(p.length)
	return Info{
		Length: p.length, Tokens: n, MaxID: p.file.maxID, Docs: p.docs,
		LabelCount: p.file.labelCount(0, n), Skipped: int(p.file.skipped),
	}
}

func (p *packedText) Where(i int) string {
	return fmt.Sprintf("%s (tokens %d to %d)", p.file.path, i*p.length, (i+1)*p.length)
}

// Close unmaps the file.
func (p *packedText) Close() error { return p.file.close() }

func (p *packedText) Tokens(int) int { return p.length }

func (p *packedText) prefetch(i int) error {
	lo := int64(i) * int64(p.length)
	return p.file.prefetch(lo, lo+int64(p.length))
}

// Row fills r with row i.
func (p *packedText) Row(i int, r *Row) error {
	lo := int64(i) * int64(p.length)
	hi := lo + int64(p.length)
	if err := p.file.fill(r, lo, hi); err != nil {
		return err
	}
	if !p.docs {
		return nil
	}
	doc := sort.Search(p.file.docs, func(d int) bool { return p.file.end(d) > lo })
	end := hi
	if doc < p.file.docs {
		end = p.file.end(doc)
	}
	number := int32(0)
	for at := lo; at < hi; at++ {
		for at >= end {
			doc++
			end = hi
			if doc < p.file.docs {
				end = p.file.end(doc)
			}
			number++
		}
		r.Docs = append(r.Docs, number)
	}
	return nil
}

func (d *documents) Len() int { return d.len() }

func (d *documents) Info() Info { return d.info }

func (d *documents) Where(i int) string { return d.file.where(d.document(i)) }

// Close unmaps the file.
func (d *documents) Close() error { return d.file.close() }

func (d *documents) Tokens(i int) int {
	lo, hi := d.span(i)
	return int(hi - lo)
}

func (d *documents) prefetch(i int) error { return d.file.prefetch(d.span(i)) }

// Row fills r with row i.
func (d *documents) Row(i int, r *Row) error {
	lo, hi := d.span(i)
	if err := d.file.fill(r, lo, hi); err != nil {
		return err
	}
	d.file.applyMask(r, lo)
	r.Class = d.file.docClass(d.document(i))
	return nil
}
