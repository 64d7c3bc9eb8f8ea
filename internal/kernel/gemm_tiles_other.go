//go:build !amd64

package kernel

func tiles(t tilesOf, a, b []uint16, out []float32, ldout int, first bool) {
	tilesGeneric(t, a, b, out, ldout, first, false)
}

func copyTiles(dst, src []uint16, ld, rows, steps int) int {
	return copyTilesGeneric(dst, src, ld, rows, steps)
}

func pairTiles(dst, src []uint16, ld, apart, pairs, cols int) int {
	return pairTilesGeneric(dst, src, ld, apart, pairs, cols)
}

func transposeTiles(dst, src []uint16, ld, step, steps int) {
	transposeTilesGeneric(dst, src, ld, step, steps)
}

func splitSteps(parts Parts, dst []uint16, src tileSource, steps int, transposed bool) {
	splitStepsGeneric(parts, dst, src, steps, transposed)
}

func tilePeak(int) float64 { return 0 }

func pairPeak(int) float64 { return 0 }

func pairRows([]float32, int, Matrix, int, int) {}

func transposePairs([]float32, int, Matrix, int) int { return 0 }

func swapPairs([]float32, []uint16) {}
