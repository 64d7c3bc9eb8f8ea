package kernel

// drop clears dropped probabilities s of queries from i against keys from c. The others are scaled
// later, with the sums over keys.
func (a *Attention) drop(s []float32, ld int, t *attnTile, g, i, c int) {
	a.eachDropped(t, g, i, c, func(r, lo, hi int, words []uint32) {
		row := s[r*ld:][lo:hi]
		dropSelect(row, row, words, a.Drop.Below, 1)
	})
}

// dropGradient applies dropout to probabilities p and gradients dp = p*(dp-d), with dp already
// scaled.
func (a *Attention) dropGradient(p, dp []float32, ld int, t *attnTile, d []float32, g, i, c int) {
	a.eachDropped(t, g, i, c, func(r, lo, hi int, words []uint32) {
		dropGradient(p[r*ld:][lo:hi], dp[r*ld:][lo:hi], words, a.Drop.Below, d[r])
	})
}

// eachDropped calls f with the random words of the keys that each query of a tile sees.
func (a *Attention) eachDropped(t *attnTile, g, i, c int, f func(r, lo, hi int, words []uint32)) {
	var mem [attnKeys + dropBlock]uint32
	for r := range t.rows {
		lo, hi := int(t.lo[r]), int(t.hi[r])
		if lo < hi {
			first := a.Drop.First + uint64(i+r)*a.Drop.Row + uint64(g)*a.Drop.Head + uint64(c+lo)
			f(r, lo, hi, a.Drop.words(mem[:], first, hi-lo))
		}
	}
}
