package data

import (
	"fmt"
	"sort"
)

// Packed is documents joined and cut into rows of one length; what is left at the end is
// not used.
type Packed struct {
	file   *tokenFile
	name   string
	length int
	docs   bool
}

// Documents is documents of a token file, a row each.
type Documents struct {
	file *tokenFile
	name string
	most int   // tokens of a row
	rows []int // documents of two tokens or more
	info Info
}

var (
	_ Dataset = (*Packed)(nil)
	_ Dataset = (*Documents)(nil)
)

// newPacked cuts rows of length tokens; docs says that documents are kept apart.
func newPacked(f *tokenFile, name string, length int, docs bool) (*Packed, error) {
	if f.tokens < int64(length) {
		return nil, fmt.Errorf("data: %s has %d tokens, fewer than one row of sequence_length %d", name, f.tokens, length)
	}
	return &Packed{f, name, length, docs}, nil
}

// Len is the number of whole rows.
func (p *Packed) Len() int { return int(p.file.tokens / int64(p.length)) }

// Info is what the rows have in common.
func (p *Packed) Info() Info {
	return Info{Length: p.length, Tokens: int64(p.Len()) * int64(p.length), MaxID: p.file.maxID, Docs: p.docs}
}

// Where names the tokens of row i.
func (p *Packed) Where(i int) string {
	return fmt.Sprintf("%s (tokens %d to %d)", p.name, i*p.length, (i+1)*p.length)
}

// Close unmaps the file.
func (p *Packed) Close() error { return p.file.close() }

// Row fills r with row i.
func (p *Packed) Row(i int, r *Row) error {
	lo := int64(i) * int64(p.length)
	hi := lo + int64(p.length)
	r.InputIDs = p.file.read(r.InputIDs[:0], lo, hi)
	r.Labels = append(r.Labels[:0], r.InputIDs...)
	r.Class = Ignored
	r.Docs = r.Docs[:0]
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

// newDocuments makes a row of each document of two tokens or more. One of more than most
// tokens is cut with truncate; else its number is given back as long, and the rows are nil.
func newDocuments(f *tokenFile, name string, most int, truncate bool) (d *Documents, long int, err error) {
	d = &Documents{file: f, name: name, most: most, info: Info{MaxID: f.maxID}}
	last := int64(0)
	for i := range f.docs {
		n := int(f.end(i) - last)
		last = f.end(i)
		if n > most && !truncate {
			return nil, i, fmt.Errorf("%d tokens are more than sequence_length %d. try: data.truncate: true, or data.packing: true", n, most)
		}
		if n < 2 {
			continue
		}
		n = min(n, most)
		d.rows = append(d.rows, i)
		d.info.Length = max(d.info.Length, n)
		d.info.Tokens += int64(n)
	}
	if len(d.rows) == 0 {
		return nil, -1, fmt.Errorf("data: %s holds no document of two tokens", name)
	}
	return d, -1, nil
}

// Len is the number of documents that are rows.
func (d *Documents) Len() int { return len(d.rows) }

// Info is what the rows have in common.
func (d *Documents) Info() Info { return d.info }

// Where names the document of row i.
func (d *Documents) Where(i int) string {
	return fmt.Sprintf("%s (document %d)", d.name, d.rows[i]+1)
}

// Close unmaps the file.
func (d *Documents) Close() error { return d.file.close() }

// Row fills r with row i.
func (d *Documents) Row(i int, r *Row) error {
	doc, lo := d.rows[i], int64(0)
	if doc > 0 {
		lo = d.file.end(doc - 1)
	}
	hi := min(d.file.end(doc), lo+int64(d.most))
	r.InputIDs = d.file.read(r.InputIDs[:0], lo, hi)
	r.Labels = append(r.Labels[:0], r.InputIDs...)
	r.Docs, r.Class = r.Docs[:0], Ignored
	return nil
}
