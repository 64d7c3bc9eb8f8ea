package data

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// A token file holds documents as token ids, little-endian:
//
//	 0  8 bytes  "TRIRTOK1"
//	 8  uint32   bytes of a token: 2 or 4
//	12  uint32   largest id
//	16  uint64   number of tokens
//	24  uint64   number of documents
//	32  32 bytes digest of what it was made from
//	64  uint32   CRC-32C of the 64 bytes before
//	68  4 bytes  0
//	72           the tokens, then zeros up to a multiple of 8
//	             uint64 a document: the number of tokens up to its end
const (
	tokenMagic  = "TRIRTOK1"
	tokenHeader = 72
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tokenWriter writes a token file; the header goes in last.
type tokenWriter struct {
	f      *os.File
	w      *bufio.Writer
	width  int
	tokens int64
	maxID  int32
	ends   []int64
	buf    []byte
}

// newTokenWriter begins a file for ids below vocab.
func newTokenWriter(f *os.File, vocab int) (*tokenWriter, error) {
	w := &tokenWriter{f: f, w: bufio.NewWriterSize(f, 1<<20), width: 4, maxID: -1}
	if vocab <= 1<<16 {
		w.width = 2
	}
	_, err := w.w.Write(make([]byte, tokenHeader))
	return w, err
}

// add writes one document.
func (w *tokenWriter) add(ids []int32) error {
	w.buf = w.buf[:0]
	for _, id := range ids {
		w.maxID = max(w.maxID, id)
		if w.width == 2 {
			w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(id))
		} else {
			w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(id))
		}
	}
	w.tokens += int64(len(ids))
	w.ends = append(w.ends, w.tokens)
	_, err := w.w.Write(w.buf)
	return err
}

// finish writes the ends of the documents and the header, and waits for the disk.
func (w *tokenWriter) finish(digest [32]byte) error {
	b := make([]byte, -(w.tokens*int64(w.width))&7)
	for _, end := range w.ends {
		b = binary.LittleEndian.AppendUint64(b, uint64(end))
	}
	if _, err := w.w.Write(b); err != nil {
		return err
	}
	if err := w.w.Flush(); err != nil {
		return err
	}
	h := append(make([]byte, 0, tokenHeader), tokenMagic...)
	h = binary.LittleEndian.AppendUint32(h, uint32(w.width))
	h = binary.LittleEndian.AppendUint32(h, uint32(max(w.maxID, 0)))
	h = binary.LittleEndian.AppendUint64(h, uint64(w.tokens))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(w.ends)))
	h = append(h, digest[:]...)
	h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
	if _, err := w.f.WriteAt(append(h, 0, 0, 0, 0), 0); err != nil {
		return err
	}
	return w.f.Sync()
}

// tokenFile is a token file in memory-mapped form.
type tokenFile struct {
	path   string
	data   []byte // all of the file
	width  int
	tokens int64
	docs   int
	maxID  int32
	digest [32]byte
	unmap  func() error
}

// openTokens checks a token file's header against its size and maps it.
func openTokens(path string) (*tokenFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	var h [tokenHeader]byte
	if _, err := io.ReadFull(f, h[:]); err != nil {
		return nil, fmt.Errorf("data: %s: not a token file: %w", path, err)
	}
	t, err := parseTokenHeader(h[:], st.Size())
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	t.path = path
	if t.data, t.unmap, err = mapFile(f, int(st.Size())); err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	last := int64(0)
	for i := range t.docs {
		end := t.end(i)
		if end < last || end > t.tokens {
			t.close()
			return nil, fmt.Errorf("data: %s: document %d ends at token %d of %d", path, i, end, t.tokens)
		}
		last = end
	}
	if t.docs > 0 && last != t.tokens {
		t.close()
		return nil, fmt.Errorf("data: %s: its documents end at token %d of %d", path, last, t.tokens)
	}
	return t, nil
}

// parseTokenHeader reads a header of a file of size bytes.
func parseTokenHeader(h []byte, size int64) (*tokenFile, error) {
	le := binary.LittleEndian
	if len(h) < tokenHeader || string(h[:8]) != tokenMagic {
		return nil, errors.New("not a token file")
	}
	if crc32.Checksum(h[:64], castagnoli) != le.Uint32(h[64:]) {
		return nil, errors.New("the token file's header is damaged")
	}
	t := &tokenFile{width: int(le.Uint32(h[8:])), maxID: int32(le.Uint32(h[12:]))}
	tokens, docs := le.Uint64(h[16:]), le.Uint64(h[24:])
	copy(t.digest[:], h[32:])
	if t.width != 2 && t.width != 4 || t.maxID < 0 {
		return nil, fmt.Errorf("a token file with tokens of %d bytes", t.width)
	}
	if tokens > uint64(size) || docs > uint64(size) {
		return nil, fmt.Errorf("the token file is cut short: %d tokens in %d bytes", tokens, size)
	}
	t.tokens, t.docs = int64(tokens), int(docs)
	if want := t.docsAt() + 8*int64(docs); want != size {
		return nil, fmt.Errorf("the token file has %d bytes, its header says %d", size, want)
	}
	return t, nil
}

// docsAt is where the ends of documents begin.
func (t *tokenFile) docsAt() int64 { return (tokenHeader + t.tokens*int64(t.width) + 7) &^ 7 }

// end is the number of tokens up to the end of document i.
func (t *tokenFile) end(i int) int64 {
	return int64(binary.LittleEndian.Uint64(t.data[t.docsAt()+8*int64(i):]))
}

// read appends tokens lo to hi.
func (t *tokenFile) read(dst []int32, lo, hi int64) []int32 {
	b := t.data[tokenHeader+lo*int64(t.width) : tokenHeader+hi*int64(t.width)]
	if t.width == 2 {
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, int32(binary.LittleEndian.Uint16(b)))
		}
		return dst
	}
	for ; len(b) >= 4; b = b[4:] {
		dst = append(dst, int32(binary.LittleEndian.Uint32(b)))
	}
	return dst
}

func (t *tokenFile) close() error {
	if t.unmap == nil {
		return nil
	}
	err := t.unmap()
	t.unmap, t.data = nil, nil
	return err
}
