package tokenizer

import (
	"fmt"
	"io"
	"math"
)

// model divides a piece of text into tokens. Byte-level BPE is one; the seam is here for
// others.
type model interface {
	// encode appends the ids of piece. s is the caller's own.
	encode(dst []int32, piece string, s *scratch) []int32
	// kind is the name in tokenizer.json.
	kind() string
	// describe writes what the ids depend on besides the spelling of tokens.
	describe(w io.Writer)
}

// bpe is byte-pair encoding over bytes: the piece's bytes are tokens, and of all pairs of
// neighbours the one whose merge was learned first is joined, the leftmost of them first,
// until none is left (Sennrich et al. 2016).
type bpe struct {
	bytes  [256]int32 // token of each byte; -1 where the vocabulary has none
	unk    int32      // in place of such bytes, or -1: they are left out
	merges pairTable
	whole  map[string]int32 // pieces that are one token whatever the merges say; or nil
	list   [][2]int32       // the merges in order, to be saved
}

var _ model = (*bpe)(nil)

func (*bpe) kind() string { return "BPE" }

// newBPE makes the table of merges; tokens are bytes, not GPT-2's alphabet.
func newBPE(tokens []string, ids map[string]int32, merges [][2]int32) (*bpe, error) {
	b := &bpe{unk: -1, list: merges}
	for i := range b.bytes {
		id, ok := ids[string([]byte{byte(i)})]
		if !ok {
			id = -1
		}
		b.bytes[i] = id
	}
	b.merges = newPairTable(len(merges))
	for rank, m := range merges {
		id, ok := ids[tokens[m[0]]+tokens[m[1]]]
		if !ok {
			return nil, fmt.Errorf("merge %d joins %q and %q, and the vocabulary has no %q", rank, tokens[m[0]], tokens[m[1]], tokens[m[0]]+tokens[m[1]])
		}
		b.merges.put(m[0], m[1], uint32(rank), id)
	}
	return b, nil
}

func (b *bpe) encode(dst []int32, piece string, s *scratch) []int32 {
	if b.whole != nil {
		if id, ok := b.whole[piece]; ok {
			return append(dst, id)
		}
	}
	n := len(dst)
	for i := range len(piece) {
		if id := b.bytes[piece[i]]; id >= 0 {
			dst = append(dst, id)
		} else if b.unk >= 0 {
			dst = append(dst, b.unk)
		}
	}
	if len(dst)-n <= shortPiece {
		return dst[:n+b.mergeShort(dst[n:], s)]
	}
	return dst[:n+b.mergeLong(dst[n:], s)]
}

// shortPiece is the number of tokens up to which looking at all pairs for each merge beats
// a heap.
const shortPiece = 96

// mergeShort merges ids in place and returns how many are left. Quadratic.
func (b *bpe) mergeShort(ids []int32, s *scratch) int {
	n := len(ids)
	pairs := s.pairs[:shortPiece]
	for i := 0; i+1 < n; i++ {
		pairs[i] = b.merges.get(ids[i], ids[i+1])
	}
	for n > 1 {
		best, where := noMerge, 0
		for i, p := range pairs[:n-1] {
			if p < best {
				best, where = p, i
			}
		}
		if best == noMerge {
			break
		}
		ids[where] = int32(uint32(best))
		copy(ids[where+1:n-1], ids[where+2:n])
		copy(pairs[where:n-2], pairs[where+1:n-1])
		n--
		if where > 0 {
			pairs[where-1] = b.merges.get(ids[where-1], ids[where])
		}
		if where+1 < n {
			pairs[where] = b.merges.get(ids[where], ids[where+1])
		}
	}
	return n
}

// mergeLong is mergeShort in n log n: the tokens are a linked list, and a heap holds the
// pairs that were seen; one whose tokens have changed since is passed over.
func (b *bpe) mergeLong(ids []int32, s *scratch) int {
	n := len(ids)
	s.next, s.prev = grow(s.next, n), grow(s.prev, n)
	next, prev := s.next, s.prev
	h := s.heap[:0]
	for i := range ids {
		prev[i], next[i] = int32(i-1), int32(i+1)
		if i+1 < n {
			if p := b.merges.get(ids[i], ids[i+1]); p != noMerge {
				h = append(h, candidate{p, int32(i)})
			}
		}
	}
	h.init()
	const gone = -1
	for len(h) > 0 {
		c := h.pop()
		i := int(c.at)
		if ids[i] == gone || int(next[i]) >= n {
			continue
		}
		j := int(next[i])
		if b.merges.get(ids[i], ids[j]) != c.pair {
			continue
		}
		ids[i], ids[j] = int32(uint32(c.pair)), gone
		next[i] = next[j]
		if k := int(next[i]); k < n {
			prev[k] = int32(i)
			if p := b.merges.get(ids[i], ids[k]); p != noMerge {
				h.push(candidate{p, int32(i)})
			}
		}
		if k := int(prev[i]); k >= 0 {
			if p := b.merges.get(ids[k], ids[i]); p != noMerge {
				h.push(candidate{p, int32(k)})
			}
		}
	}
	s.heap = h
	left := 0
	for i := 0; i < n; i = int(next[i]) {
		ids[left] = ids[i]
		left++
	}
	return left
}

func grow(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}

// candidate is a pair that may be merged, at the position of its left token.
type candidate struct {
	pair uint64 // rank and result, as pairTable gives them
	at   int32
}

func (c candidate) before(o candidate) bool {
	return c.pair < o.pair || c.pair == o.pair && c.at < o.at
}

// noMerge is what a pairTable gives for a pair that is not joined.
const noMerge = uint64(math.MaxUint64)

// pairTable maps pairs of tokens to rank<<32 | result: open addressing, at most half full.
type pairTable struct {
	slots []pairSlot
	shift uint
}

type pairSlot struct{ key, value uint64 }

func newPairTable(n int) pairTable {
	bits := uint(4)
	for 1<<bits < 2*n+2 {
		bits++
	}
	t := pairTable{slots: make([]pairSlot, 1<<bits), shift: 64 - bits}
	for i := range t.slots {
		t.slots[i].value = noMerge
	}
	return t
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// put keeps the first of several merges of one pair.
func (t *pairTable) put(a, b int32, rank uint32, result int32) {
	key := pairKey(a, b)
	for i := key * 0x9e3779b97f4a7c15 >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		if s := &t.slots[i]; s.value == noMerge {
			*s = pairSlot{key, uint64(rank)<<32 | uint64(uint32(result))}
			return
		} else if s.key == key {
			return
		}
	}
}

func (t *pairTable) get(a, b int32) uint64 {
	key := pairKey(a, b)
	for i := key * 0x9e3779b97f4a7c15 >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		if s := &t.slots[i]; s.key == key || s.value == noMerge {
			return s.value
		}
	}
}
