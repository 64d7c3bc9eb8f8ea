package kernel

import "math"

// Dropout drops element e of a random stream if word e%4 of Philox at counter (e/4, Stream) with key
// Seed is below Below. Other elements are multiplied by Scale.
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
	// DropoutPiece is the maximum number of elements per call of Apply: with preceding elements of the
	// same counter they fill whole blocks of words.
	DropoutPiece = 1020
	dropBlock    = 64 // words generated at once
)

// Apply sets dst[i] = x[i]*Scale, or 0 if element first+i is dropped. dst may be x.
func (d *Dropout) Apply(dst, x []float32, first uint64) {
	var mem [DropoutPiece + 4]uint32
	dropSelect(dst, x, d.words(mem[:], first, len(dst)), d.Below, d.Scale)
}

// words returns the words of elements first to first+n, in mem.
func (d *Dropout) words(mem []uint32, first uint64, n int) []uint32 {
	lead := int(first & 3)
	randomWords(mem[:roundUp(lead+n, dropBlock)], d.Seed, d.Stream, first>>2)
	return mem[lead:][:n]
}

// randomWordsGeneric generates the words of counters k, k+1, ...; dst holds whole blocks.
func randomWordsGeneric(dst []uint32, seed, stream, k uint64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for i := 0; i < len(dst); i += 4 {
		w := Philox([4]uint32{uint32(k), uint32(k >> 32), uint32(stream), uint32(stream >> 32)}, key)
		copy(dst[i:i+4], w[:])
		k++
	}
}

// dropSelectGeneric sets dst[i] = x[i]*scale, or 0 if words[i] < below.
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

// dropGradientGeneric replaces p and p*(dp-d) by 0 and -p*d where words[i] < below.
func dropGradientGeneric(p, dp []float32, words []uint32, below uint32, d float32) {
	dp, words = dp[:len(p)], words[:len(p)]
	for i := range p {
		if words[i] < below {
			dp[i] = -(p[i] * d)
			p[i] = 0
		}
	}
}
