package kernel

import "math"

// Dropout drops elements of a stream of random words: element e where word e, which is word e%4
// of Philox at counter (e/4, Stream) with key Seed, is below Below. Others are multiplied by
// Scale.
type Dropout struct {
	Seed, Stream uint64
	Below        uint32
	Scale        float32
}

// NewDropout drops with probability p, 0 <= p < 1; Scale is 1/(1-p).
func NewDropout(p float64, seed, stream uint64) Dropout {
	return Dropout{seed, stream, uint32(min(math.Round(p*0x1p32), math.MaxUint32)), float32(1 / (1 - p))}
}

const (
	// DropoutPiece is how many elements Apply takes at the most: with those before it that share
	// a counter, whole blocks of words.
	DropoutPiece = 1020
	dropBlock    = 64 // words that are made at once
)

// Apply: dst[i] = x[i]*Scale, or 0 where element first+i is dropped. dst may be x.
func (d *Dropout) Apply(dst, x []float32, first uint64) {
	var mem [DropoutPiece + 4]uint32
	dropSelect(dst, x, d.words(mem[:], first, len(dst)), d.Below, d.Scale)
}

// words are those of elements first to first+n, made in mem.
func (d *Dropout) words(mem []uint32, first uint64, n int) []uint32 {
	lead := int(first & 3)
	randomWords(mem[:roundUp(lead+n, dropBlock)], d.Seed, d.Stream, first>>2)
	return mem[lead:][:n]
}

// randomWordsGeneric makes the words of counters k, k+1, ...; dst has whole blocks.
func randomWordsGeneric(dst []uint32, seed, stream, k uint64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for i := 0; i < len(dst); i += 4 {
		w := Philox([4]uint32{uint32(k), uint32(k >> 32), uint32(stream), uint32(stream >> 32)}, key)
		copy(dst[i:i+4], w[:])
		k++
	}
}

// dropSelectGeneric: dst[i] = x[i]*scale, or 0 where words[i] < below.
func dropSelectGeneric(dst, x []float32, words []uint32, below uint32, scale float32) {
	x, words = x[:len(dst)], words[:len(dst)]
	for i := range dst {
		if words[i] < below {
			dst[i] = 0
		} else {
			dst[i] = x[i] * scale
		}
	}
}

// dropGradientGeneric turns p and p*(dp-d) into what they are where words[i] < below: 0 and -p*d.
func dropGradientGeneric(p, dp []float32, words []uint32, below uint32, d float32) {
	dp, words = dp[:len(p)], words[:len(p)]
	for i := range p {
		if words[i] < below {
			dp[i] = -(p[i] * d)
			p[i] = 0
		}
	}
}
