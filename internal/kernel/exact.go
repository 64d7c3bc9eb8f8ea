package kernel

import (
	"math"
	"math/big"
	"math/bits"
)

// Exact accumulators (tensor.ExactWords words): word w < ExactDigits counts units of
// 2^(32w-352), the last word counts numbers that are not finite or beyond the words' reach.
const (
	ExactDigits = 21
	exactLow    = -352
	exactBlock  = 64
)

// Exact is an exact accumulator.
type Exact [ExactDigits + 1]int64

// Add adds x without rounding. Between two calls of Carry there may be 2^30 additions.
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
	pos := exp - 1075 - exactLow // of the fraction's lowest bit, above the lowest word's
	if pos < 0 {
		if pos <= -53 {
			return
		}
		frac >>= -pos
		pos = 0
	}
	w, s := pos>>5, uint(pos&31)
	if w > ExactDigits-3 { // the top words: where the number ends decides
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

// Carry moves what exceeds 32 bits of a word into the next; the value stays.
func (e *Exact) Carry() {
	for w := range ExactDigits - 1 {
		c := e[w] >> 32 // rounds down, so the digit that stays is not negative
		e[w] -= c << 32
		e[w+1] += c
	}
}

// AddTo adds the words to dst, an accumulator of the same kind.
func (e *Exact) AddTo(dst []int64) {
	for w, v := range e {
		dst[w] += v
	}
}

// Float64 is the sum rounded to the nearest, ties to even, or NaN where a number that is
// not finite went in.
func (e *Exact) Float64() float64 {
	if e[ExactDigits] != 0 {
		return math.NaN()
	}
	sum, digit := new(big.Int), new(big.Int)
	for w := ExactDigits - 1; w >= 0; w-- {
		sum.Lsh(sum, 32).Add(sum, digit.SetInt64(e[w]))
	}
	f := new(big.Float).SetInt(sum) // as many bits as the number has: no rounding
	v, _ := f.SetMantExp(f, exactLow).Float64()
	return v
}

// Squares adds the squares of x, summed in F64 over blocks of 64 elements from the first.
func (e *Exact) Squares(x []float32) {
	var sums [256]float64
	for len(x) > 0 {
		n := min(len(x), exactBlock*len(sums))
		s := sums[:(n+exactBlock-1)/exactBlock]
		blockSquares(s, x[:n])
		for _, v := range s {
			e.Add(v)
		}
		e.Carry() // a word has room for 2^31 additions
		x = x[n:]
	}
}

// blockSquaresGeneric: dst[i] = sum of the squares of x[64i:64i+64]: eight lanes, element j
// in lane j%8, then lanes l and l+4, l and l+2, l and l+1 added.
func blockSquaresGeneric(dst []float64, x []float32) {
	for i := range dst {
		var l [8]float64
		for j, v := range x[i*exactBlock : min((i+1)*exactBlock, len(x))] {
			l[j&7] += float64(v) * float64(v) // the square is exact, so a fused sum is the same
		}
		dst[i] = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
	}
}
