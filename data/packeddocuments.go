package data

import "fmt"

// packedDocuments combines whole documents of a token file into rows: consecutive ones while they
// fit. They do not attend to each other.
type packedDocuments struct {
	*selection
	start []int32 // row i is documents start[i] to start[i+1]
}

var _ Dataset = (*packedDocuments)(nil)

// newPackedDocuments fills rows of up to length tokens.
func newPackedDocuments(sel *selection, length int) *packedDocuments {
	b := &packedDocuments{selection: sel}
	full := 0
	for i := range sel.len() {
		lo, hi := sel.span(i)
		n := int(hi - lo)
		if i == 0 || full+n > length {
			b.start = append(b.start, int32(i))
			full = 0
		}
		full += n
		sel.info.Length = max(sel.info.Length, full)
	}
	b.start = append(b.start, int32(sel.len()))
	sel.info.Docs = true
	return b
}

func (b *packedDocuments) Len() int { return len(b.start) - 1 }

func (b *packedDocuments) Info() Info { return b.info }

// Where returns the origin of the row's first document.
func (b *packedDocuments) Where(i int) string {
	first, n := int(b.start[i]), int(b.start[i+1]-b.start[i])
	where := b.file.where(b.document(first))
	if n > 1 {
		return fmt.Sprintf("%s and %d more rows", where, n-1)
	}
	return where
}

func (b *packedDocuments) Close() error { return b.file.close() }

func (b *packedDocuments) Tokens(i int) int {
	n := int64(0)
	for k := b.start[i]; k < b.start[i+1]; k++ {
		lo, hi := b.span(int(k))
		n += hi - lo
	}
	return int(n)
}

func (b *packedDocuments) prefetch(i int) error {
	lo, _ := b.span(int(b.start[i]))
	_, hi := b.span(int(b.start[i+1] - 1))
	return b.file.prefetch(lo, hi)
}

func (b *packedDocuments) Row(i int, r *Row) error {
	r.InputIDs, r.Labels, r.Docs, r.Types, r.Class = r.InputIDs[:0], r.Labels[:0], r.Docs[:0], r.Types[:0], Ignored
	for k := b.start[i]; k < b.start[i+1]; k++ {
		lo, hi := b.span(int(k))
		if err := b.file.extend(r, lo, hi); err != nil {
			return err
		}
		for range hi - lo {
			r.Docs = append(r.Docs, k-b.start[i])
		}
	}
	return nil
}
