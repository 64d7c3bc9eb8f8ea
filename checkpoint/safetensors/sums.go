package safetensors

import (
	"fmt"
	"hash/crc32"
	"math/bits"
)

// Sums collects the checksums of a file that several processes write: each adds the bytes that it writes, in any order, and one
// merges the Parts of all. It is not safe for concurrent use.
//
// A CRC is linear: that of a block is the sum, by exclusive or, of those of its runs of bytes, with zero bytes for the
// rest of the block, without the inversion at the beginning and the end.
type Sums struct {
	layout *Layout
	blocks *checksums
	sum    []uint32 // by block

	// The runs of one block so far, in ascending order.
	block, size, at int
	crc             uint32

	zeros zeros
}

// Part is the sums of consecutive blocks of one process.
type Part struct {
	First int      `json:"first"`
	Sum   []uint32 `json:"sum"`
}

// NewSums begins the checksums of a file whose layout has them.
func (l *Layout) NewSums() *Sums {
	c := newChecksums(l.infos())
	return &Sums{layout: l, blocks: c, sum: make([]uint32, len(c.crc)), block: -1}
}

// Add adds bytes of a tensor, from element first on, as Layout.WriteRange writes them.
func (s *Sums) Add(name string, first int, b []byte) error {
	i, ok := s.layout.byName[name]
	if !ok {
		return fmt.Errorf("safetensors: checksum of %q: not declared", name)
	}
	e := s.layout.entries[i]
	at := int64(first) * int64(e.DType.Size())
	if first < 0 || at+int64(len(b)) > e.Bytes() {
		return fmt.Errorf("safetensors: checksum of %v: %d bytes at element %d are out of range", e, len(b), first)
	}
	for len(b) > 0 {
		k, in := int(at/BlockBytes), int(at%BlockBytes)
		size := blockSize(e.Bytes(), k)
		n := min(len(b), size-in)
		s.add(s.blocks.first[i]+k, size, in, b[:n])
		at, b = at+int64(n), b[n:]
	}
	return nil
}

// add adds bytes of a block of size bytes, from byte at on.
func (s *Sums) add(block, size, at int, b []byte) {
	if block != s.block || at < s.at {
		s.end()
		s.block, s.size, s.at, s.crc = block, size, 0, 0
	}
	s.crc = ^crc32.Update(^s.zeros.after(s.crc, at-s.at), castagnoli, b)
	s.at = at + len(b)
}

// end adds the runs so far to the sum of their block.
func (s *Sums) end() {
	if s.block >= 0 {
		s.sum[s.block] ^= s.zeros.after(s.crc, s.size-s.at)
	}
	s.block = -1
}

// Parts returns what was added, for Merge.
func (s *Sums) Parts() (parts []Part) {
	s.end()
	for k, sum := range s.sum {
		switch last := len(parts) - 1; {
		case sum == 0: // changes nothing
		case last >= 0 && parts[last].First+len(parts[last].Sum) == k:
			parts[last].Sum = append(parts[last].Sum, sum)
		default:
			parts = append(parts, Part{k, []uint32{sum}})
		}
	}
	return parts
}

// Merge adds the Parts of another process.
func (s *Sums) Merge(parts []Part) error {
	for _, p := range parts {
		if p.First < 0 || p.First > len(s.sum) || len(p.Sum) > len(s.sum)-p.First {
			return fmt.Errorf("safetensors: checksums of blocks %d to %d of %d", p.First, p.First+len(p.Sum), len(s.sum))
		}
		for k, sum := range p.Sum {
			s.sum[p.First+k] ^= sum
		}
	}
	return nil
}

// Header returns the header with the checksums of all that was added and merged. It has the size of the layout's.
func (s *Sums) Header() []byte {
	s.end()
	infos := s.layout.infos()
	for i, t := range infos {
		for k := range blocksOf(t.Size) {
			b := s.blocks.first[i] + k
			s.blocks.crc[b] = ^(s.zeros.after(^uint32(0), blockSize(t.Size, k)) ^ s.sum[b])
		}
	}
	return s.layout.withChecksums(s.blocks)
}

// zeros appends zero bytes to what a CRC is of. It keeps the factor of the last number of them, because the distance
// between the runs of a box is constant.
type zeros struct {
	n      int
	factor uint32
}

// after returns a CRC, without inversions, after n more zero bytes.
func (z *zeros) after(crc uint32, n int) uint32 {
	if n == 0 || crc == 0 {
		return crc
	}
	if n != z.n {
		z.n, z.factor = n, power(8*uint(n))
	}
	return times(crc, z.factor)
}

// Polynomials over the integers modulo 2, modulo CRC-32C's. The highest bit is the coefficient of x^0.
const polyOne, polyX = uint32(1) << 31, uint32(1) << 30

// power returns x^n.
func power(n uint) uint32 {
	p := polyOne
	for i := bits.Len(n) - 1; i >= 0; i-- {
		if p = times(p, p); n>>i&1 != 0 {
			p = times(p, polyX)
		}
	}
	return p
}

// times returns the product of a and b.
func times(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		if a&polyOne != 0 {
			p ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return p
}
