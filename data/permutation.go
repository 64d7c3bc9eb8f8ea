package data

// maxPermutation is the length from which torch.randperm uses 64-bit numbers.
const maxPermutation = 1<<32/20 - 1

// permutation is torch.randperm(n) on the CPU after manual_seed(seed), for n up to 2^32/20: for i in
// 0..n-2, z = u32 % (n-i), swap i and i+z. Swap i is the last that changes element i, so elements are
// computed in order when they are first read, and the first one costs no more than any other.
type permutation struct {
	elements []uint32
	filled   []bool // by block of elements: it had 0..n-1 before the swaps
	final    int    // swaps done
	random   *mt19937
}

const permutationBlock = 1024 // elements

func newPermutation(n int) *permutation {
	return &permutation{elements: make([]uint32, n), filled: make([]bool, (n+permutationBlock-1)/permutationBlock)}
}

// start begins the permutation of a seed. The memory is reused.
func (p *permutation) start(seed uint64) {
	clear(p.filled)
	p.final, p.random = 0, newMT19937(uint32(seed))
}

// at returns element k.
func (p *permutation) at(k int) int {
	n := len(p.elements)
	for ; p.final <= k; p.final++ {
		i, j := p.final, p.final
		if i+1 < n {
			j += int(p.random.uint32() % uint32(n-i))
		}
		p.fill(i)
		p.fill(j)
		p.elements[i], p.elements[j] = p.elements[j], p.elements[i]
	}
	return int(p.elements[k])
}

// fill sets the block of element i to 0..n-1, unless swaps have begun there.
func (p *permutation) fill(i int) {
	b := i / permutationBlock
	if p.filled[b] {
		return
	}
	p.filled[b] = true
	first := b * permutationBlock
	block := p.elements[first:min(first+permutationBlock, len(p.elements))]
	for k := range block {
		block[k] = uint32(first + k)
	}
}
