package model

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
