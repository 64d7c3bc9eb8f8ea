package naive

import "trireme/tensor"

// kept is what element e of the key's stream is multiplied by: 1/(1-p), or 0.
func kept(key tensor.RandKey, e uint64, p float64) float64 {
	if float64(word(key, e)) < p*0x1p32 {
		return 0
	}
	return 1 / (1 - p)
}

// Dropout drops by the numbers that the contract names.
func (b *Backend) Dropout(dst, x *tensor.Tensor, key tensor.RandKey, first *tensor.Tensor, p float64) {
	u := read(x)
	for i := range u {
		u[i] *= kept(key, uint64(get(first, 0, 0))*uint64(x.Width())+uint64(i), p)
	}
	write(dst, u, false)
}

// keeps is what the probability of key j for head h of row n is multiplied by.
func keeps(p tensor.AttentionParams, n, h, j int) float64 {
	if p.Dropout == 0 {
		return 1
	}
	row := uint64(get(p.First, 0, 0)) + uint64(n)
	return kept(p.Key, (row*uint64(p.Heads)+uint64(h))*uint64(p.T)+uint64(j), p.Dropout)
}
