package tokenizer

import "math"

// pairTable maps pairs of tokens to rank<<32 | result, with open addressing and a load of up to one half.
// The pair of lowest rank is merged first, leftmost among equals, until none is left (Sennrich et
// al. 2016).
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

// put overwrites an earlier merge of the pair, as in Hugging Face's and GPT-2's tables.
func (t *pairTable) put(a, b int32, rank uint32, result int32) {
	key := pairKey(a, b)
	for i := key * 0x9e3779b97f4a7c15 >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		if s := &t.slots[i]; s.value == noMerge {
			*s = pairSlot{key, uint64(rank)<<32 | uint64(uint32(result))}
			return
		} else if s.key == key {
			s.value = uint64(rank)<<32 | uint64(uint32(result))
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

// merge merges ids in place and returns the new length.
func (t *pairTable) merge(ids []int32, s *scratch) int {
	if len(ids) <= shortPiece {
		return t.mergeShort(ids, s)
	}
	return t.mergeLong(ids, s)
}

// shortPiece is the length up to which a linear scan per merge beats a heap.
const shortPiece = 96

// mergeShort is merge in quadratic time.
func (t *pairTable) mergeShort(ids []int32, s *scratch) int {
	n := len(ids)
	pairs := s.pairs[:shortPiece]
	for i := 0; i+1 < n; i++ {
		pairs[i] = t.get(ids[i], ids[i+1])
	}
	for n > 1 {
		best, where := noMerge>>32, 0
		for i, p := range pairs[:n-1] {
			if p>>32 < best {
				best, where = p>>32, i
			}
		}
		if best == noMerge>>32 {
			break
		}
		ids[where] = int32(uint32(pairs[where]))
		copy(ids[where+1:n-1], ids[where+2:n])
		copy(pairs[where:n-2], pairs[where+1:n-1])
		n--
		if where > 0 {
			pairs[where-1] = t.get(ids[where-1], ids[where])
		}
		if where+1 < n {
			pairs[where] = t.get(ids[where], ids[where+1])
		}
	}
	return n
}

// mergeLong is merge in n log n: a linked list of tokens and a heap of pairs. Outdated pairs are
// skipped.
func (t *pairTable) mergeLong(ids []int32, s *scratch) int {
	n := len(ids)
	s.next, s.prev = grow(s.next, n), grow(s.prev, n)
	next, prev := s.next, s.prev
	h := s.heap[:0]
	for i := range ids {
		prev[i], next[i] = int32(i-1), int32(i+1)
		if i+1 < n {
			if p := t.get(ids[i], ids[i+1]); p != noMerge {
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
		if t.get(ids[i], ids[j]) != c.pair {
			continue
		}
		ids[i], ids[j] = int32(uint32(c.pair)), gone
		next[i] = next[j]
		if k := int(next[i]); k < n {
			prev[k] = int32(i)
			if p := t.get(ids[i], ids[k]); p != noMerge {
				h.push(candidate{p, int32(i)})
			}
		}
		if k := int(prev[i]); k >= 0 {
			if p := t.get(ids[k], ids[i]); p != noMerge {
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

// candidate is a pair that may be merged.
type candidate struct {
	pair uint64 // pairTable's value
	at   int32
}

func (c candidate) before(o candidate) bool {
	a, b := c.pair>>32, o.pair>>32
	return a < b || a == b && c.at < o.at
}

// noMerge is pairTable's value for pairs without merge.
const noMerge = uint64(math.MaxUint64)
