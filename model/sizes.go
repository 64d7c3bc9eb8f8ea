package model

import (
	"fmt"

	"trireme/fault"
)

// NextMultiple is the least multiple of d that is not below n: what a size may be in place of one
// that does not divide. d is positive.
func NextMultiple(n, d int) int { return (n + d - 1) / d * d }

// LargestDivisor is the largest divisor of n that is at most d. Both are positive.
func LargestDivisor(n, d int) int {
	for n%d != 0 {
		d--
	}
	return d
}

// mostParameters bounds a model, so that whatever is counted of it fits an int: a petabyte in
// bytes, a thousand times the largest there is.
const mostParameters = 1 << 48

// Size is a number of config.json that must be at least 1, and at most Max.
type Size struct {
	Key    string
	N, Max int
}

// CheckSizes says which of them is out of its bounds, or that they make too many parameters: about
// as many as parameters gives, where an int might not hold it. It is asked once all sizes are right.
func CheckSizes(sizes []Size, parameters func() float64) error {
	for _, s := range sizes {
		if s.N <= 0 || s.N > s.Max {
			return fmt.Errorf("%s is %d: it must be between 1 and %d", s.Key, s.N, s.Max)
		}
	}
	if n := parameters(); n > mostParameters {
		return fault.Try(fmt.Errorf("the sizes make %.3g parameters: at most %.3g can be", n, float64(mostParameters)), "smaller sizes")
	}
	return nil
}

// CheckDropout says whether p, which config.json calls key, is a share that may be dropped.
func CheckDropout(key string, p float64) error {
	if !(p >= 0 && p < 1) {
		return fmt.Errorf("%s is %v: it must be at least 0 and below 1", key, p)
	}
	return nil
}
