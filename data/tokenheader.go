package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A token file holds documents as token ids, little-endian:
//
//	  0  8 bytes  "TRIRTOK2"
//	  8  uint32   bytes per token: 2 or 4
//	 12  uint32   largest id of tokens and labels
//	 16  uint64   number of tokens
//	 24  uint64   number of documents
//	 32  32 bytes digest of its sources
//	 64  uint32   sections present, a bit mask of sec... below
//	 68  uint32   tokens of the longest document
//	 72  uint64   number of replaced labels
//	 80  uint64   number of label tokens
//	 88  uint64   records without labels
//	 96  int32    largest class, or -100
//	100  uint32   CRC-32C of the 100 bytes before
//	104           the sections, each padded with zeros to a multiple of 8
//
// The sections, in this order:
//
//	tokens    uint16 or uint32 per token
//	ends      uint64 per document: its end in tokens
//	counted   bit per token (lowest first): its label is the token itself; else Ignored
//	hidden    bit per token: attention_mask is 0
//	replaced  uint64, uint32, 4 bytes 0: token index and label, if it is another token;
//	          ascending
//	classes   int32 per document: class label, or -100
//	origins   uint64 per document: see origin
//	sums      uint32 per 64 KiB of the sections before: its CRC-32C; and one of these
const (
	tokenMagic  = "TRIRTOK2"
	tokenHeader = 104
)

const (
	secCounted = 1 << iota // absent: labels are the tokens
	secHidden              // absent: none
	secReplaced
	secClasses // absent: all Ignored
	flagHoles  // not a section: a hidden token precedes one that is not
	secSums    // absent in files of earlier versions
	secAll     = secCounted | secHidden | secReplaced | secClasses | flagHoles | secSums
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type tokenInfo struct {
	width     int
	maxID     int32
	tokens    int64
	docs      int
	digest    [32]byte
	sections  uint32
	longest   int
	nreplaced int64
	counted   int64
	skipped   int64
	maxClass  int32
}

func (t *tokenInfo) header() []byte {
	le := binary.LittleEndian
	h := append(make([]byte, 0, tokenHeader), tokenMagic...)
	h = le.AppendUint32(h, uint32(t.width))
	h = le.AppendUint32(h, uint32(max(t.maxID, 0)))
	h = le.AppendUint64(h, uint64(t.tokens))
	h = le.AppendUint64(h, uint64(t.docs))
	h = append(h, t.digest[:]...)
	h = le.AppendUint32(h, t.sections)
	h = le.AppendUint32(h, uint32(t.longest))
	h = le.AppendUint64(h, uint64(t.nreplaced))
	h = le.AppendUint64(h, uint64(t.counted))
	h = le.AppendUint64(h, uint64(t.skipped))
	h = le.AppendUint32(h, uint32(t.maxClass))
	return le.AppendUint32(h, crc32.Checksum(h, castagnoli))
}

// sizes returns the padded sizes of the sections in bytes.
func (t *tokenInfo) sizes() [8]int64 {
	bits := func(section uint32) int64 { return t.has(section) * ((t.tokens + 7) / 8) }
	docs := int64(t.docs)
	s := [8]int64{
		t.tokens * int64(t.width), 8 * docs, bits(secCounted), bits(secHidden),
		t.has(secReplaced) * 16 * t.nreplaced, t.has(secClasses) * 4 * docs, 8 * docs,
	}
	all := int64(0)
	for i, n := range s {
		s[i] = (n + 7) &^ 7
		all += s[i]
	}
	s[7] = (t.has(secSums)*4*(sumsOf(all)+1) + 7) &^ 7
	return s
}

// has is 1 if a section is present.
func (t *tokenInfo) has(section uint32) int64 {
	if t.sections&section != 0 {
		return 1
	}
	return 0
}

// parseTokenHeader parses the header of a file of size bytes.
func parseTokenHeader(h []byte, size int64) (*tokenInfo, error) {
	le := binary.LittleEndian
	if len(h) < tokenHeader || string(h[:8]) != tokenMagic {
		return nil, errors.New("not a token file")
	}
	if crc32.Checksum(h[:tokenHeader-4], castagnoli) != le.Uint32(h[tokenHeader-4:]) {
		return nil, errors.New("the token file's header is damaged")
	}
	counts := [5]uint64{le.Uint64(h[16:]), le.Uint64(h[24:]), le.Uint64(h[72:]), le.Uint64(h[80:]), le.Uint64(h[88:])}
	for _, n := range counts[:3] {
		if n > uint64(size) {
			return nil, fmt.Errorf("the token file is truncated: its header says %d tokens, documents or labels in %d bytes", n, size)
		}
	}
	t := &tokenInfo{
		width: int(le.Uint32(h[8:])), maxID: int32(le.Uint32(h[12:])), tokens: int64(counts[0]), docs: int(counts[1]),
		sections: le.Uint32(h[64:]), longest: int(le.Uint32(h[68:])), nreplaced: int64(counts[2]),
		counted: int64(counts[3]), skipped: int64(counts[4]), maxClass: int32(le.Uint32(h[96:])),
	}
	copy(t.digest[:], h[32:])
	if t.width != 2 && t.width != 4 || t.maxID < 0 || t.sections&^secAll != 0 || counts[3] > counts[0] || counts[4] > math.MaxInt64 {
		return nil, errors.New("the token file's header is invalid")
	}
	want := int64(tokenHeader)
	for _, n := range t.sizes() {
		want += n
	}
	if want != size {
		return nil, fmt.Errorf("the token file has %d bytes, its header says %d", size, want)
	}
	return t, nil
}
