package checkpoint

import (
	"hash/maphash"
	"math/bits"

	"trireme/tensor"
)

// tiles reports whether pieces, as many elements in all as a tensor of shape s has, hold each of
// them once. Every element has the weight w1(i1) w2(i2) ... of its indices, where each w is a random
// function into the integers modulo a prime. The weight of a box is then a product of differences of
// running sums, and boxes that are not a tiling weigh as much as the whole only if random numbers
// are a root of a polynomial of as many unknowns of degree 1: with a probability below dimensions /
// 2^61 (Schwartz-Zippel), which no author of a file can raise. This takes time in proportion to the
// pieces, however they lie; comparing boxes with one another does not.
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

// sumBefore is the sum of the weights of indices below i of dimension d: random numbers too.
func sumBefore(seed maphash.Seed, d, i int) uint64 {
	return maphash.Comparable(seed, [2]int{d, i}) % prime
}

// mulMod is a*b modulo prime, of a and b below it.
func mulMod(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	_, rem := bits.Div64(hi, lo, prime)
	return rem
}
