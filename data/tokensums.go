package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"trireme/fault"
)

// sumBlock is the number of bytes of a token file with one checksum. Those of the tokens are compared when a row in them is
// first read, the others when the file is opened.
const sumBlock = 64 << 10

// sumsOf returns the number of checksums of a number of bytes.
func sumsOf(bytes int64) int64 { return (bytes + sumBlock - 1) / sumBlock }

// addSums reads the sections back, and writes their checksums after them.
func (w *tokenWriter) addSums() error {
	size := int64(0)
	for _, n := range w.sizes() {
		size += n
	}
	w.sections |= secSums
	var table []byte
	block := make([]byte, sumBlock)
	for at := int64(0); at < size; at += sumBlock {
		b := block[:min(sumBlock, size-at)]
		if _, err := w.f.ReadAt(b, tokenHeader+at); err != nil {
			return err
		}
		table = binary.LittleEndian.AppendUint32(table, crc32.Checksum(b, castagnoli))
	}
	table = binary.LittleEndian.AppendUint32(table, crc32.Checksum(table, castagnoli))
	_, err := w.f.WriteAt(append(table, make([]byte, -len(table)&7)...), tokenHeader+size)
	return err
}

var errDamaged = errors.New("is damaged: a checksum differs")

// checkSums compares the checksums of all but the tokens.
func (t *tokenFile) checkSums() error {
	if len(t.sums) == 0 {
		return nil
	}
	n := sumsOf(int64(len(t.data) - tokenHeader - len(t.sums)))
	if crc32.Checksum(t.sums[:4*n], castagnoli) != binary.LittleEndian.Uint32(t.sums[4*n:]) {
		return errDamaged
	}
	t.intact = make([]atomic.Bool, n)
	for i := int64(len(t.ids)) / sumBlock; i < n; i++ {
		if !t.same(i) {
			return errDamaged
		}
	}
	return nil
}

// same reports whether a block has its checksum.
func (t *tokenFile) same(i int64) bool {
	if !t.intact[i].Load() {
		b := t.data[tokenHeader+i*sumBlock : min(tokenHeader+(i+1)*sumBlock, int64(len(t.data)-len(t.sums)))]
		if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(t.sums[4*i:]) {
			return false
		}
		t.intact[i].Store(true)
	}
	return true
}

// checkTokens returns an error if tokens lo to hi are damaged.
func (t *tokenFile) checkTokens(lo, hi int64) error {
	if len(t.intact) == 0 || hi <= lo {
		return nil
	}
	w := int64(t.width)
	for i := lo * w / sumBlock; i*sumBlock < hi*w; i++ {
		if t.same(i) {
			continue
		}
		if t.cached {
			return fault.Try(fmt.Errorf("its file in the cache, %s, %w", t.at, errDamaged), "remove that file: the next start writes it again")
		}
		return fault.Try(fmt.Errorf("%s %w", t.path, errDamaged), "write or download it again")
	}
	return nil
}
