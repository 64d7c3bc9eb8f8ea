package optim

import "math/big"

// cos returns the correctly rounded cosine of x in [0, 2 pi], from its series in 160 bits. It runs
// once per step and equals the C library's result to the last bit on every machine.
func cos(x float64) float64 {
	const bits = 160
	square := new(big.Float).SetPrec(bits).SetFloat64(x)
	square.Mul(square, square)
	sum, term := big.NewFloat(1).SetPrec(bits), big.NewFloat(1).SetPrec(bits)
	for n := int64(2); term.Sign() != 0 && term.MantExp(nil) > -bits; n += 2 {
		term.Mul(term, square)
		term.Quo(term, new(big.Float).SetInt64(-n*(n-1)))
		sum.Add(sum, term)
	}
	v, _ := sum.Float64()
	return v
}
