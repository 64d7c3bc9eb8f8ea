package checkpoint

import (
	"hash/maphash"
	"math/bits"

	"trireme/tensor"
)

// tiles reports whether pieces, which have the size of a tensor of shape s in total, cover each
// element once. Each element has weight w1(i1) w2(i2) ... of its indices, where each w is a random
// function into the integers modulo a prime. A box's weight is a product of differences of prefix
// sums. By the Schwartz-Zippel lemma, boxes that are not a tiling have the weight of the tensor
// with probability below dimensions / 2^61, whatever the file's author does. The time is linear in
// the number of pieces, unlike comparing boxes pairwise.
func tiles(s tensor.Shape, pieces []piece) bool {
	seed := maphash.MakeSeed()
	weight := func(b tensor.Box) uint64 {
		w := uint64(1)
		for d, at := range b.Offsets {
			lo, hi := sumBefore(seed, d, at), sumBefore(seed, d, at+b.Sizes[d])
			w = mulMod(w, (hi+prime-lo)%prime)
		}
		return w
	}
	sum := uint64(0)
	for _, p := range pieces {
		sum = (sum + weight(p.Box)) % prime
	}
	return sum == weight(tensor.FullBox(s))
}

const prime = 1<<61 - 1

// sumBefore is the prefix sum of weights below index i of dimension d: itself random.
func sumBefore(seed maphash.Seed, d, i int) uint64 {
	return maphash.Comparable(seed, [2]int{d, i}) % prime
}

// mulMod returns a*b modulo prime for a, b < prime.
func mulMod(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	_, rem := bits.Div64(hi, lo, prime)
	return rem
}
