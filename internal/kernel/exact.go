package kernel

import (
	"math"
	"math/big"
	"math/bits"
)

// Exact accumulators have tensor.ExactWords words. Word w < ExactDigits counts units of 2^(32w-352);
// the last word counts inputs that are not finite or out of range.
const (
	ExactDigits = 21
	exactLow    = -352
	exactBlock  = 64
)

// Exact is an exact accumulator of float64.
type Exact [ExactDigits + 1]int64

// Add adds x without rounding. Call Carry at least every 2^30 additions.
func (e *Exact) Add(x float64) {
	u := math.Float64bits(x)
	exp := int(u >> 52 & 0x7ff)
	frac := u & (1<<52 - 1)
	switch exp {
	case 0x7ff:
		e[ExactDigits]++
		return
	case 0:
		exp = 1
	default:
		frac |= 1 << 52
	}
	pos := exp - 1075 - exactLow // position of the lowest fraction bit above the lowest word
	if pos < 0 {
		if pos <= -53 {
			return
		}
		frac >>= -pos
		pos = 0
	}
	w, s := pos>>5, uint(pos&31)
	if w > ExactDigits-3 { // in the top words the end of the number decides
		if frac != 0 && pos+64-bits.LeadingZeros64(frac) > 32*ExactDigits {
			e[ExactDigits]++
			return
		}
	}
	lo, hi := frac<<s, uint64(0)
	if s > 0 {
		hi = frac >> (64 - s)
	}
	d0, d1, d2 := int64(lo&math.MaxUint32), int64(lo>>32), int64(hi)
	if int64(u) < 0 {
		d0, d1, d2 = -d0, -d1, -d2
	}
	e[w] += d0
	if d1 != 0 {
		e[w+1] += d1
	}
	if d2 != 0 {
		e[w+2] += d2
	}
}

// Carry moves the excess over 32 bits of each word into the next; the value does not change.
func (e *Exact) Carry() {
	for w := range ExactDigits - 1 {
		c := e[w] >> 32 // rounds down, so that the remaining digit is not negative
		e[w] -= c << 32
		e[w+1] += c
	}
}

// AddTo adds the words to dst, another exact accumulator.
func (e *Exact) AddTo(dst []int64) {
	for w, v := range e {
		dst[w] += v
	}
}

// Float64 returns the sum rounded to nearest, ties to even, or NaN if an input was not finite or out of
// range.
func (e *Exact) Float64() float64 {
	if e[ExactDigits] != 0 {
		return math.NaN()
	}
	sum, digit := new(big.Int), new(big.Int)
	for w := ExactDigits - 1; w >= 0; w-- {
		sum.Lsh(sum, 32).Add(sum, digit.SetInt64(e[w]))
	}
	f := new(big.Float).SetInt(sum) // exact: its precision is the length of sum
	v, _ := f.SetMantExp(f, exactLow).Float64()
	return v
}

// Squares adds the squares of x, summed in float64 over blocks of 64 elements from x[0].
func (e *Exact) Squares(x []float32) {
	var sums [256]float64
	for len(x) > 0 {
		n := min(len(x), exactBlock*len(sums))
		s := sums[:(n+exactBlock-1)/exactBlock]
		blockSquares(s, x[:n])
		for _, v := range s {
			e.Add(v)
		}
		e.Carry() // a word has headroom for 2^31 additions
		x = x[n:]
	}
}

// blockSquaresGeneric sets dst[i] to the sum of squares of x[64i:64i+64]: element j in lane j%8, then
// lanes l and l+4, l and l+2, l and l+1 are added.
func blockSquaresGeneric(dst []float64, x []float32) {
	for i := range dst {
		var l [8]float64
		for j, v := range x[i*exactBlock : min((i+1)*exactBlock, len(x))] {
			l[j&7] += float64(v) * float64(v) // the square is exact, so a fused sum is the same
		}
		dst[i] = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
	}
}
