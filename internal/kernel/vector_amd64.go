package kernel

import "trireme/internal/impl"

// Kernels choose between Go and the assembly of _asm/vector here. Assembly takes its length from the
// first slice.

func add(dst, a, b []float32) {
	n := len(dst)
	a, b = a[:n], b[:n]
	switch impl.Current() {
	case impl.AVX512:
		addAVX512(dst, a, b)
	case impl.AVX2:
		addAVX2(dst, a, b)
	default:
		addGeneric(dst, a, b)
	}
}

func addScaled(dst, a, b []float32, s float32) {
	n := len(dst)
	a, b = a[:n], b[:n]
	switch impl.Current() {
	case impl.AVX512:
		addScaledAVX512(dst, a, b, s)
	case impl.AVX2:
		addScaledAVX2(dst, a, b, s)
	default:
		addScaledGeneric(dst, a, b, s)
	}
}

func swiglu(dst, gate, up []float32) {
	n := len(dst)
	gate, up = gate[:n], up[:n]
	switch impl.Current() {
	case impl.AVX512:
		swigluAVX512(dst, gate, up)
	case impl.AVX2:
		swigluAVX2(dst, gate, up)
	default:
		swigluGeneric(dst, gate, up)
	}
}

func swigluBackward(dgate, dup, dy, gate, up []float32) {
	n := len(dgate)
	dup, dy, gate, up = dup[:n], dy[:n], gate[:n], up[:n]
	switch impl.Current() {
	case impl.AVX512:
		swigluBackwardAVX512(dgate, dup, dy, gate, up)
	case impl.AVX2:
		swigluBackwardAVX2(dgate, dup, dy, gate, up)
	default:
		swigluBackwardGeneric(dgate, dup, dy, gate, up)
	}
}

func geluTanh(dst, x []float32) {
	n := len(dst)
	x = x[:n]
	switch impl.Current() {
	case impl.AVX512:
		geluTanhAVX512(dst, x)
	case impl.AVX2:
		geluTanhAVX2(dst, x)
	default:
		geluTanhGeneric(dst, x)
	}
}

func geluTanhBackward(dx, dy, x []float32) {
	n := len(dx)
	dy, x = dy[:n], x[:n]
	switch impl.Current() {
	case impl.AVX512:
		geluTanhBackwardAVX512(dx, dy, x)
	case impl.AVX2:
		geluTanhBackwardAVX2(dx, dy, x)
	default:
		geluTanhBackwardGeneric(dx, dy, x)
	}
}

func geluErf(dst, x []float32) {
	n := len(dst)
	x = x[:n]
	switch impl.Current() {
	case impl.AVX512:
		geluErfAVX512(dst, x)
	case impl.AVX2:
		geluErfAVX2(dst, x)
	default:
		geluErfGeneric(dst, x)
	}
}

func geluErfBackward(dx, dy, x []float32) {
	n := len(dx)
	dy, x = dy[:n], x[:n]
	switch impl.Current() {
	case impl.AVX512:
		geluErfBackwardAVX512(dx, dy, x)
	case impl.AVX2:
		geluErfBackwardAVX2(dx, dy, x)
	default:
		geluErfBackwardGeneric(dx, dy, x)
	}
}

func squares(x []float32) float64 {
	switch impl.Current() {
	case impl.AVX512:
		return squaresAVX512(x)
	case impl.AVX2:
		return squaresAVX2(x)
	}
	return squaresGeneric(x)
}

func sum(x []float32) float64 {
	switch impl.Current() {
	case impl.AVX512:
		return sumAVX512(x)
	case impl.AVX2:
		return sumAVX2(x)
	}
	return sumGeneric(x)
}

func centeredSquares(x []float32, mean float32) float64 {
	switch impl.Current() {
	case impl.AVX512:
		return centeredSquaresAVX512(x, mean)
	case impl.AVX2:
		return centeredSquaresAVX2(x, mean)
	}
	return centeredSquaresGeneric(x, mean)
}

func rmsScale(y, x, w []float32, rstd float32) {
	n := len(y)
	x, w = x[:n], w[:n]
	switch impl.Current() {
	case impl.AVX512:
		rmsScaleAVX512(y, x, w, rstd)
	case impl.AVX2:
		rmsScaleAVX2(y, x, w, rstd)
	default:
		rmsScaleGeneric(y, x, w, rstd)
	}
}

func dot3(a, b, c []float32) float64 {
	n := len(a)
	b, c = b[:n], c[:n]
	switch impl.Current() {
	case impl.AVX512:
		return dot3AVX512(a, b, c)
	case impl.AVX2:
		return dot3AVX2(a, b, c)
	}
	return dot3Generic(a, b, c)
}

func layerScale(y, x, w, b []float32, mean, rstd float32) {
	n := len(y)
	x, w, b = x[:n], w[:n], b[:n]
	switch impl.Current() {
	case impl.AVX512:
		layerScaleAVX512(y, x, w, b, mean, rstd)
	case impl.AVX2:
		layerScaleAVX2(y, x, w, b, mean, rstd)
	default:
		layerScaleGeneric(y, x, w, b, mean, rstd)
	}
}

func layerDots(dy, w, x []float32, mean float32) (g, gx float64) {
	n := len(dy)
	w, x = w[:n], x[:n]
	switch impl.Current() {
	case impl.AVX512:
		return layerDotsAVX512(dy, w, x, mean)
	case impl.AVX2:
		return layerDotsAVX2(dy, w, x, mean)
	}
	return layerDotsGeneric(dy, w, x, mean)
}

func maximum(x []float32) float32 {
	switch impl.Current() {
	case impl.AVX512:
		return maximumAVX512(x)
	case impl.AVX2:
		return maximumAVX2(x)
	}
	return maximumGeneric(x)
}

func expSum(x []float32, top float32) float64 {
	switch impl.Current() {
	case impl.AVX512:
		return expSumAVX512(x, top)
	case impl.AVX2:
		return expSumAVX2(x, top)
	}
	return expSumGeneric(x, top)
}

func scale(x []float32, s float32) {
	switch impl.Current() {
	case impl.AVX512:
		scaleAVX512(x, s)
	case impl.AVX2:
		scaleAVX2(x, s)
	default:
		scaleGeneric(x, s)
	}
}

func bf16ToF32(dst []float32, src []uint16) {
	n := len(dst)
	src = src[:n]
	switch impl.Current() {
	case impl.AVX512:
		bf16ToF32AVX512(dst, src)
		n &= 15
	case impl.AVX2:
		bf16ToF32AVX2(dst, src)
		n &= 15
	}
	bf16ToF32Generic(dst[len(dst)-n:], src[len(dst)-n:])
}

func f32ToBF16(dst []uint16, src []float32) {
	n := len(dst)
	src = src[:n]
	switch impl.Current() {
	case impl.AVX512:
		f32ToBF16AVX512(dst, src)
		n &= 15
	case impl.AVX2:
		f32ToBF16AVX2(dst, src)
		n &= 15
	}
	f32ToBF16Generic(dst[len(dst)-n:], src[len(dst)-n:])
}

func f16ToF32(dst []float32, src []uint16) {
	n := len(dst)
	src = src[:n]
	switch impl.Current() {
	case impl.AVX512:
		f16ToF32AVX512(dst, src)
		n &= 15
	case impl.AVX2:
		f16ToF32AVX2(dst, src)
		n &= 15
	}
	f16ToF32Generic(dst[len(dst)-n:], src[len(dst)-n:])
}

func f32ToF16(dst []uint16, src []float32) {
	n := len(dst)
	src = src[:n]
	switch impl.Current() {
	case impl.AVX512:
		f32ToF16AVX512(dst, src)
		n &= 15
	case impl.AVX2:
		f32ToF16AVX2(dst, src)
		n &= 15
	}
	f32ToF16Generic(dst[len(dst)-n:], src[len(dst)-n:])
}

func rope(dst, x, cos, sin []float32, headDim int, inverse bool) {
	x, cos, sin = x[:len(dst)], cos[:headDim/2], sin[:headDim/2]
	var flip uint32
	if inverse {
		flip = 1 << 31
	}
	switch impl.Current() {
	case impl.AVX512:
		ropeAVX512(dst, x, cos, sin, headDim, flip)
	case impl.AVX2:
		ropeAVX2(dst, x, cos, sin, headDim, flip)
	default:
		ropeGeneric(dst, x, cos, sin, headDim, inverse)
	}
}

func rmsGradient(dx, dw, dy, dres, x, w []float32, rstd, k float32) {
	n := len(dx)
	dw, dy, x, w = dw[:n], dy[:n], x[:n], w[:n]
	if dres != nil {
		dres = dres[:n]
	}
	switch impl.Current() {
	case impl.AVX512:
		rmsGradientAVX512(dx, dw, dy, dres, x, w, rstd, k)
	case impl.AVX2:
		rmsGradientAVX2(dx, dw, dy, dres, x, w, rstd, k)
	default:
		rmsGradientGeneric(dx, dw, dy, dres, x, w, rstd, k)
	}
}

func layerGradient(dx, dw, db, dy, dres, x, w []float32, mean, rstd, k, c float32) {
	n := len(dx)
	dw, db, dy, x, w = dw[:n], db[:n], dy[:n], x[:n], w[:n]
	if dres != nil {
		dres = dres[:n]
	}
	switch impl.Current() {
	case impl.AVX512:
		layerGradientAVX512(dx, dw, db, dy, dres, x, w, mean, rstd, k, c)
	case impl.AVX2:
		layerGradientAVX2(dx, dw, db, dy, dres, x, w, mean, rstd, k, c)
	default:
		layerGradientGeneric(dx, dw, db, dy, dres, x, w, mean, rstd, k, c)
	}
}

func adamw(p, m, v, g []float32, s *AdamWStep) {
	n := len(p)
	m, v, g = m[:n], v[:n], g[:n]
	c := [...]float32{s.Keep, s.Beta1, s.New1, s.Beta2, s.New2, s.Rate, s.Root, s.Eps, s.Scale}
	switch impl.Current() {
	case impl.AVX512:
		adamwAVX512(p, m, v, g, &c)
	case impl.AVX2:
		adamwAVX2(p, m, v, g, &c)
	default:
		adamwGeneric(p, m, v, g, s)
	}
}

// blockSquares leaves a partial last block to Go.
func blockSquares(dst []float64, x []float32) {
	whole := len(x) / exactBlock
	switch impl.Current() {
	case impl.AVX512:
		blockSquaresAVX512(dst[:whole], x)
	case impl.AVX2:
		blockSquaresAVX2(dst[:whole], x)
	default:
		whole = 0
	}
	blockSquaresGeneric(dst[whole:], x[whole*exactBlock:])
}

// normalFor returns the assembly of Normal and of how many elements it computes multiples.
func normalFor() (f normalFunc, unit int) {
	switch l := impl.Current(); {
	case l == impl.AVX512:
		return normalAVX512, 16
	case l == impl.AVX2:
		return normalAVX2, 8
	}
	return nil, 0
}

func randomWords(dst []uint32, seed, stream, k uint64) {
	c := [...]uint32{uint32(k), uint32(k >> 32), uint32(stream), uint32(stream >> 32), uint32(seed), uint32(seed >> 32)}
	switch l := impl.Current(); {
	case l == impl.Generic || uint64(c[0])+uint64(len(dst)/4) > 1<<32:
		randomWordsGeneric(dst, seed, stream, k)
	case l == impl.AVX512:
		randomWordsAVX512(dst, &c)
	default:
		randomWordsAVX2(dst, &c)
	}
}

func dropSelect(dst, x []float32, words []uint32, below uint32, scale float32) {
	n := len(dst)
	x, words = x[:n], words[:n]
	switch impl.Current() {
	case impl.AVX512:
		dropSelectAVX512(dst, x, words, below, scale)
	case impl.AVX2:
		dropSelectAVX2(dst, x, words, below, scale)
	default:
		dropSelectGeneric(dst, x, words, below, scale)
	}
}

func dropGradient(p, dp []float32, words []uint32, below uint32, d float32) {
	n := len(p)
	dp, words = dp[:n], words[:n]
	switch impl.Current() {
	case impl.AVX512:
		dropGradientAVX512(p, dp, words, below, d)
	case impl.AVX2:
		dropGradientAVX2(p, dp, words, below, d)
	default:
		dropGradientGeneric(p, dp, words, below, d)
	}
}

// dotsQuantized sets y to the products of x with the whole blocks of each row of w.
func dotsQuantized(y, x []float32, w []uint8, scales []float32) {
	k := len(x)
	blocks, lds := k/quantBlock, (k+quantBlock-1)/quantBlock
	_, _ = w[:len(y)*k], scales[:len(y)*lds]
	one, several, rows := dotQuantizedAVX512, dotQuantizedRowsAVX512, 8
	switch impl.Current() {
	case impl.AVX512:
	case impl.AVX2:
		one, several, rows = dotQuantizedAVX2, dotQuantizedRowsAVX2, 4
	default:
		dotsQuantizedGeneric(y, x, w, scales)
		return
	}
	done := quantizedStreams(y, rows, func(row, stride int, y *float32) {
		several(blocks, &x[0], &w[row*k], stride*k, &scales[row*lds], stride*lds, y)
	})
	for n := done; n < len(y); n++ {
		y[n] = one(blocks, &x[0], &w[n*k], &scales[n*lds])
	}
}

func dequantize(dst []float32, w []uint8, scales []float32) {
	switch impl.Current() {
	case impl.AVX512:
		dequantizeAVX512(dst, w, scales)
	case impl.AVX2:
		dequantizeAVX2(dst, w, scales)
	default:
		dequantizeGeneric(dst, w, scales)
	}
}
