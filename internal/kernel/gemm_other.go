//go:build !amd64 && !arm64

package kernel

import "trireme/internal/impl"

var gemmShapes = [...]gemmShape{impl.Generic: genericShape}

func (g *gemm) run(t *gemmTile, rows int) int { return tileGeneric(t, rows) }

func transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	transposeGeneric(dst, ldd, src, lds, rows, cols)
}

func copiesFor(cols int) (copies, bool) { return copies{}, false }

func fmaPeak(n int) float64 { return 0 }

func rowKernelFor(a, b Matrix) rowKernel { return rowKernel{} }
