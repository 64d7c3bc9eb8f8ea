package kernel

import "trireme/internal/impl"

// FMAPeak runs about 1000*n vector fused multiply-adds in registers, and returns the
// floating-point operations, two each. Divided by the elapsed time that is the peak rate of one
// thread in the current version. It returns 0 for a version without such code.
func FMAPeak(n int) float64 { return fmaPeak(1000 * n) }

// TilePeak is FMAPeak for bfloat16 products by tiles, or 0 on a processor without tiles.
func TilePeak(n int) float64 {
	if !impl.Tiles() {
		return 0
	}
	return tilePeak(n)
}
