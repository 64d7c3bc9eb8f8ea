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

// summer computes the checksums of what is written to it.
type summer struct {
	table []byte
	sum   uint32
	n     int // bytes of the block
}

func (s *summer) Write(b []byte) (int, error) {
	for left := b; len(left) > 0; {
		part := left[:min(len(left), sumBlock-s.n)]
		s.sum, s.n, left = crc32.Update(s.sum, castagnoli, part), s.n+len(part), left[len(part):]
		if s.n == sumBlock {
			s.endBlock()
		}
	}
	return len(b), nil
}

func (s *summer) endBlock() {
	s.table = binary.LittleEndian.AppendUint32(s.table, s.sum)
	s.sum, s.n = 0, 0
}

// section returns the section of checksums.
func (s *summer) section() []byte {
	if s.n > 0 {
		s.endBlock()
	}
	s.table = binary.LittleEndian.AppendUint32(s.table, crc32.Checksum(s.table, castagnoli))
	return append(s.table, make([]byte, -len(s.table)&7)...)
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
