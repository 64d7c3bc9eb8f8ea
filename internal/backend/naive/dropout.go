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
func (b *Backend) Dropout(dst, x *tensor.Tensor, key tensor.RandKey, rows *tensor.Tensor, p float64) {
	u, w := read(x), x.Width()
	for i := range u {
		u[i] *= kept(key, uint64(get(rows, 0, i/w))*uint64(w)+uint64(i%w), p)
	}
	write(dst, u, false)
}

// keeps is what the probability of key j for head h of row n is multiplied by.
func keeps(p tensor.AttentionParams, n, h, j int) float64 {
	if p.Dropout == 0 {
		return 1
	}
	row := uint64(get(p.Rows, 0, n))
	return kept(p.Key, (row*uint64(p.Heads)+uint64(h))*uint64(p.Longest)+uint64(j), p.Dropout)
}
