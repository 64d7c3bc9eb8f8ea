package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"sync/atomic"

	"trireme/fault"
)

type tokenFile struct {
	tokenInfo
	path   string
	files  []string // indexed by origins; nil: unknown
	at     string   // path of the token file
	cached bool     // in the cache, immutable
	plain  bool     // without document boundaries
	data   []byte   // the whole file
	first  int64    // offset of ids in data
	unmap  func() error

	// Sections; nil if absent.
	ids, ends, count, hide, replace, class, origins, sums []byte

	intact []atomic.Bool // blocks of sums that were compared
}

// openTokens maps a token file of this program or another.
func openTokens(path string) (*tokenFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	head := make([]byte, 1<<16)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	if head = head[:n]; bytes.HasPrefix(head, []byte(tokenMagic)) {
		return mapTokens(f, path)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	t, err := mapArray(f, head, st.Size())
	if err != nil {
		if !fault.HasTry(err) {
			err = fault.Try(err, "write or download it again, or set data.format if it has no tokens")
		}
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return t, nil
}

// mapTokens validates and maps a token file. name is for messages.
func mapTokens(f *os.File, name string) (*tokenFile, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	var h [tokenHeader]byte
	if _, err := f.ReadAt(h[:], 0); err != nil && err != io.EOF {
		return nil, fmt.Errorf("data: %s: %w", name, err)
	}
	info, err := parseTokenHeader(h[:], st.Size())
	if err != nil {
		return nil, fault.Try(fmt.Errorf("data: %s: %w", name, err), "write or download it again")
	}
	t := &tokenFile{tokenInfo: *info, path: name, first: tokenHeader}
	if t.data, t.unmap, err = mapFile(f, int(st.Size())); err != nil {
		return nil, fmt.Errorf("data: %s: %w", name, err)
	}
	at := int64(tokenHeader)
	for i, section := range []*[]byte{&t.ids, &t.ends, &t.count, &t.hide, &t.replace, &t.class, &t.origins, &t.sums} {
		n := t.sizes()[i]
		*section = t.data[at : at+n]
		at += n
	}
	err = t.checkSums()
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return nil, errors.Join(fault.Try(fmt.Errorf("data: %s: %w", name, err), "write or download it again"), t.close())
	}
	return t, nil
}

// check validates what later reads rely on.
func (t *tokenFile) check() error {
	last := int64(0)
	for i := range t.docs {
		end := t.end(i)
		if end < last || end > t.tokens {
			return fmt.Errorf("document %d ends at token %d of %d", i, end, t.tokens)
		}
		last = end
	}
	if t.docs > 0 && last != t.tokens {
		return fmt.Errorf("its last document ends at token %d of %d", last, t.tokens)
	}
	last = -1
	for i := range t.nreplaced {
		at, label := t.replacement(i)
		if at <= last || at >= t.tokens || label < 0 {
			return fmt.Errorf("label %d belongs to token %d of %d", i, at, t.tokens)
		}
		last = at
	}
	return nil
}

// end is the end of document i in tokens.
func (t *tokenFile) end(i int) int64 { return int64(binary.LittleEndian.Uint64(t.ends[8*i:])) }

// begin is the start of document i in tokens.
func (t *tokenFile) begin(i int) int64 {
	if i == 0 {
		return 0
	}
	return t.end(i - 1)
}

// replacement returns the token index and label of replaced label i.
func (t *tokenFile) replacement(i int64) (at int64, label int32) {
	b := t.replace[16*i:]
	return int64(binary.LittleEndian.Uint64(b)), int32(binary.LittleEndian.Uint32(b[8:]))
}

func (t *tokenFile) docClass(i int) int32 {
	if len(t.class) == 0 {
		return Ignored
	}
	return int32(binary.LittleEndian.Uint32(t.class[4*i:]))
}

// where returns the origin of document i.
func (t *tokenFile) where(i int) string {
	p := origin(binary.LittleEndian.Uint64(t.origins[8*i:]))
	if p.file() >= len(t.files) {
		return fmt.Sprintf("%s (document %d)", t.path, i+1)
	}
	return p.in(t.files)
}

// prefetch starts to read tokens lo to hi from the disk.
func (t *tokenFile) prefetch(lo, hi int64) error {
	w := int64(t.width)
	lo, hi = lo*w, hi*w
	if len(t.intact) > 0 { // whole blocks are compared
		lo, hi = lo/sumBlock*sumBlock, min(sumsOf(hi)*sumBlock, int64(len(t.ids)))
	}
	return readAhead(t.data, t.first+lo, t.first+hi)
}

// read appends tokens lo to hi to dst. It is an error if they are damaged.
func (t *tokenFile) read(dst []int32, lo, hi int64) ([]int32, error) {
	if err := t.checkTokens(lo, hi); err != nil {
		return dst, err
	}
	b := t.ids[lo*int64(t.width) : hi*int64(t.width)]
	le := binary.LittleEndian
	switch t.width {
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, int32(le.Uint16(b)))
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, int32(le.Uint32(b)))
		}
	default:
		for ; len(b) >= 8; b = b[8:] {
			dst = append(dst, int32(min(le.Uint64(b), math.MaxInt32)))
		}
	}
	return dst, nil
}

// fill sets r to tokens lo to hi and their labels, without Docs.
func (t *tokenFile) fill(r *Row, lo, hi int64) error {
	r.InputIDs, r.Labels, r.Docs, r.Types, r.Class = r.InputIDs[:0], r.Labels[:0], r.Docs[:0], r.Types[:0], Ignored
	return t.extend(r, lo, hi)
}

// extend appends tokens lo to hi and their labels to r.
func (t *tokenFile) extend(r *Row, lo, hi int64) (err error) {
	from := len(r.InputIDs)
	if r.InputIDs, err = t.read(r.InputIDs, lo, hi); err != nil {
		return err
	}
	r.Labels = append(r.Labels, r.InputIDs[from:]...)
	labels := r.Labels[from:]
	if len(t.count) > 0 {
		for i := range labels {
			if !bit(t.count, lo+int64(i)) {
				labels[i] = Ignored
			}
		}
	}
	first := sort.Search(int(t.nreplaced), func(i int) bool { at, _ := t.replacement(int64(i)); return at >= lo })
	for i := int64(first); i < t.nreplaced; i++ {
		at, label := t.replacement(i)
		if at >= hi {
			break
		}
		labels[at-lo] = label
	}
	return nil
}

// unpadded returns the range lo to hi without the tokens at both ends whose attention_mask is 0,
// which are padding. At least one token is left.
func (t *tokenFile) unpadded(lo, hi int64) (int64, int64) {
	for len(t.hide) > 0 && lo+1 < hi && bit(t.hide, hi-1) {
		hi--
	}
	for len(t.hide) > 0 && lo+1 < hi && bit(t.hide, lo) {
		lo++
	}
	return lo, hi
}

// applyMask sets label Ignored and document -1 for tokens whose attention_mask is 0. r starts at
// token lo.
func (t *tokenFile) applyMask(r *Row, lo int64) {
	if len(t.hide) == 0 {
		return
	}
	r.Docs = append(r.Docs[:0], make([]int32, len(r.InputIDs))...)
	for i := range r.Docs {
		if bit(t.hide, lo+int64(i)) {
			r.Labels[i], r.Docs[i] = Ignored, -1
		}
	}
}

func bit(b []byte, i int64) bool { return b[i>>3]>>(i&7)&1 != 0 }

func (t *tokenFile) close() error {
	if t.unmap == nil {
		return nil
	}
	err := t.unmap()
	*t = tokenFile{tokenInfo: t.tokenInfo, path: t.path}
	return err
}
