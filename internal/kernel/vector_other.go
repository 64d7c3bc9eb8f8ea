//go:build !amd64 && !arm64

package kernel

func add(dst, a, b []float32)                  { addGeneric(dst, a, b) }
func addScaled(dst, a, b []float32, s float32) { addScaledGeneric(dst, a, b, s) }
func bf16ToF32(dst []float32, src []uint16)    { bf16ToF32Generic(dst, src) }
func f32ToBF16(dst []uint16, src []float32)    { f32ToBF16Generic(dst, src) }
func f16ToF32(dst []float32, src []uint16)     { f16ToF32Generic(dst, src) }
func f32ToF16(dst []uint16, src []float32)     { f32ToF16Generic(dst, src) }
func swiglu(dst, gate, up []float32)           { swigluGeneric(dst, gate, up) }
func swigluBackward(dgate, dup, dy, gate, up []float32) {
	swigluBackwardGeneric(dgate, dup, dy, gate, up)
}
func geluTanh(dst, x []float32)                           { geluTanhGeneric(dst, x) }
func geluTanhBackward(dx, dy, x []float32)                { geluTanhBackwardGeneric(dx, dy, x) }
func geluErf(dst, x []float32)                            { geluErfGeneric(dst, x) }
func geluErfBackward(dx, dy, x []float32)                 { geluErfBackwardGeneric(dx, dy, x) }
func squares(x []float32) float64                         { return squaresGeneric(x) }
func sum(x []float32) float64                             { return sumGeneric(x) }
func centeredSquares(x []float32, mean float32) float64   { return centeredSquaresGeneric(x, mean) }
func rmsScale(y, x, w []float32, rstd float32)            { rmsScaleGeneric(y, x, w, rstd) }
func dot3(a, b, c []float32) float64                      { return dot3Generic(a, b, c) }
func layerScale(y, x, w, b []float32, mean, rstd float32) { layerScaleGeneric(y, x, w, b, mean, rstd) }
func maximum(x []float32) float32                         { return maximumGeneric(x) }
func expSum(x []float32, top float32) float64             { return expSumGeneric(x, top) }
func scale(x []float32, s float32)                        { scaleGeneric(x, s) }
func adamw(p, m, v, g []float32, s *AdamWStep)            { adamwGeneric(p, m, v, g, s) }
func blockSquares(dst []float64, x []float32)             { blockSquaresGeneric(dst, x) }

func rope(dst, x, cos, sin []float32, headDim int, inverse bool) {
	ropeGeneric(dst, x, cos, sin, headDim, inverse)
}

func rmsGradient(dx, dw, dy, dres, x, w []float32, rstd, k float32) {
	rmsGradientGeneric(dx, dw, dy, dres, x, w, rstd, k)
}

func layerDots(dy, w, x []float32, mean float32) (g, gx float64) {
	return layerDotsGeneric(dy, w, x, mean)
}

func layerGradient(dx, dw, db, dy, dres, x, w []float32, mean, rstd, k, c float32) {
	layerGradientGeneric(dx, dw, db, dy, dres, x, w, mean, rstd, k, c)
}

func normalFor() (f normalFunc, unit int) { return nil, 0 }

func randomWords(dst []uint32, seed, stream, k uint64) { randomWordsGeneric(dst, seed, stream, k) }

func dropSelect(dst, x []float32, words []uint32, below uint32, scale float32) {
	dropSelectGeneric(dst, x, words, below, scale)
}

func dropGradient(p, dp []float32, words []uint32, below uint32, d float32) {
	dropGradientGeneric(p, dp, words, below, d)
}

func dotsQuantized(y, x []float32, w []uint8, scales []float32) {
	dotsQuantizedGeneric(y, x, w, scales)
}

func dequantize(dst []float32, w []uint8, scales []float32) { dequantizeGeneric(dst, w, scales) }
