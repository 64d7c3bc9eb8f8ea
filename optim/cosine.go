package optim

import "math/big"

// cos is the cosine of x in [0, 2 pi], correctly rounded but for ties that no double reaches:
// the sum of its series in 160 bits. It runs once a step, and gives the learning rate that C's
// library gives, to the last bit, on every machine.
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
