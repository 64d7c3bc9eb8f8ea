package model

import (
	"fmt"

	"trireme/fault"
)

// NextMultiple returns the least multiple of d >= n. d is positive.
func NextMultiple(n, d int) int { return (n + d - 1) / d * d }

// LargestDivisor returns the largest divisor of n <= d. Both are positive.
func LargestDivisor(n, d int) int {
	for n%d != 0 {
		d--
	}
	return d
}

// maxParameters limits models so that sizes in bytes fit an int: 1 PB, a thousand times the
// largest model.
const maxParameters = 1 << 48

// Size is a number of config.json in [1, Max].
type Size struct {
	Key    string
	N, Max int
}

// CheckSizes checks each size, then the approximate number of parameters, as a float64 because an
// int may overflow. parameters is called only if all sizes are valid.
func CheckSizes(sizes []Size, parameters func() float64) error {
	for _, s := range sizes {
		if s.N == 0 {
			return fmt.Errorf("%s is missing or 0: it must be between 1 and %d", s.Key, s.Max)
		}
		if s.N < 0 || s.N > s.Max {
			return fmt.Errorf("%s is %d: it must be between 1 and %d", s.Key, s.N, s.Max)
		}
	}
	if n := parameters(); n > maxParameters {
		return fault.Try(fmt.Errorf("the sizes give %.3g parameters, the limit is %.3g", n, float64(maxParameters)), "smaller sizes")
	}
	return nil
}

// CheckDropout checks that p, the value of key, is a probability below 1.
func CheckDropout(key string, p float64) error {
	if !(p >= 0 && p < 1) {
		return fmt.Errorf("%s is %v: it must be in [0, 1)", key, p)
	}
	return nil
}
