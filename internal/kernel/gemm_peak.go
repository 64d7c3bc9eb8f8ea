package kernel

import "trireme/internal/impl"

// FMAPeak runs about 1000*n vector fused multiply-adds in registers, and returns the
// floating-point operations, two each. Divided by the elapsed time that is the peak rate of one
// thread in the current version. It returns 0 for a version without such code.
func FMAPeak(n int) float64 { return fmaPeak(1000 * n) }

// BF16Peak is FMAPeak for bfloat16 products by tiles or pairs, or 0 on a processor with neither.
func BF16Peak(n int) float64 {
	switch {
	case impl.Tiles():
		return tilePeak(10 * n)
	case impl.Pairs():
		return pairPeak(1000 * n)
	}
	return 0
}
