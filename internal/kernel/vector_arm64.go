package kernel

import "trireme/internal/impl"

// Kernels choose between Go and the assembly of _asm/vector here. Assembly takes its length from the
// first slice.

func add(dst, a, b []float32) {
	n := len(dst)
	a, b = a[:n], b[:n]
	if impl.Current() == impl.NEON {
		addNEON(dst, a, b)
		return
	}
	addGeneric(dst, a, b)
}

func addScaled(dst, a, b []float32, s float32) {
	n := len(dst)
	a, b = a[:n], b[:n]
	if impl.Current() == impl.NEON {
		addScaledNEON(dst, a, b, s)
		return
	}
	addScaledGeneric(dst, a, b, s)
}

func swiglu(dst, gate, up []float32) {
	n := len(dst)
	gate, up = gate[:n], up[:n]
	if impl.Current() == impl.NEON {
		swigluNEON(dst, gate, up)
		return
	}
	swigluGeneric(dst, gate, up)
}

func swigluBackward(dgate, dup, dy, gate, up []float32) {
	n := len(dgate)
	dup, dy, gate, up = dup[:n], dy[:n], gate[:n], up[:n]
	if impl.Current() == impl.NEON {
		swigluBackwardNEON(dgate, dup, dy, gate, up)
		return
	}
	swigluBackwardGeneric(dgate, dup, dy, gate, up)
}

func geluTanh(dst, x []float32) {
	n := len(dst)
	x = x[:n]
	if impl.Current() == impl.NEON {
		geluTanhNEON(dst, x)
		return
	}
	geluTanhGeneric(dst, x)
}

func geluTanhBackward(dx, dy, x []float32) {
	n := len(dx)
	dy, x = dy[:n], x[:n]
	if impl.Current() == impl.NEON {
		geluTanhBackwardNEON(dx, dy, x)
		return
	}
	geluTanhBackwardGeneric(dx, dy, x)
}

func geluErf(dst, x []float32) {
	n := len(dst)
	x = x[:n]
	if impl.Current() == impl.NEON {
		geluErfNEON(dst, x)
		return
	}
	geluErfGeneric(dst, x)
}

func geluErfBackward(dx, dy, x []float32) {
	n := len(dx)
	dy, x = dy[:n], x[:n]
	if impl.Current() == impl.NEON {
		geluErfBackwardNEON(dx, dy, x)
		return
	}
	geluErfBackwardGeneric(dx, dy, x)
}

func squares(x []float32) float64 {
	if impl.Current() == impl.NEON {
		return squaresNEON(x)
	}
	return squaresGeneric(x)
}

func sum(x []float32) float64 {
	if impl.Current() == impl.NEON {
		return sumNEON(x)
	}
	return sumGeneric(x)
}

func centeredSquares(x []float32, mean float32) float64 {
	if impl.Current() == impl.NEON {
		return centeredSquaresNEON(x, mean)
	}
	return centeredSquaresGeneric(x, mean)
}

func rmsScale(y, x, w []float32, rstd float32) {
	n := len(y)
	x, w = x[:n], w[:n]
	if impl.Current() == impl.NEON {
		rmsScaleNEON(y, x, w, rstd)
		return
	}
	rmsScaleGeneric(y, x, w, rstd)
}

func dot3(a, b, c []float32) float64 {
	n := len(a)
	b, c = b[:n], c[:n]
	if impl.Current() == impl.NEON {
		return dot3NEON(a, b, c)
	}
	return dot3Generic(a, b, c)
}

func layerScale(y, x, w, b []float32, mean, rstd float32) {
	n := len(y)
	x, w, b = x[:n], w[:n], b[:n]
	if impl.Current() == impl.NEON {
		layerScaleNEON(y, x, w, b, mean, rstd)
		return
	}
	layerScaleGeneric(y, x, w, b, mean, rstd)
}

func layerDots(dy, w, x []float32, mean float32) (g, gx float64) {
	n := len(dy)
	w, x = w[:n], x[:n]
	if impl.Current() == impl.NEON {
		return layerDotsNEON(dy, w, x, mean)
	}
	return layerDotsGeneric(dy, w, x, mean)
}

func maximum(x []float32) float32 {
	if impl.Current() == impl.NEON {
		return maximumNEON(x)
	}
	return maximumGeneric(x)
}

func expSum(x []float32, top float32) float64 {
	if impl.Current() == impl.NEON {
		return expSumNEON(x, top)
	}
	return expSumGeneric(x, top)
}

func scale(x []float32, s float32) {
	if impl.Current() == impl.NEON {
		scaleNEON(x, s)
		return
	}
	scaleGeneric(x, s)
}

func bf16ToF32(dst []float32, src []uint16) {
	n := len(dst)
	src = src[:n]
	if impl.Current() == impl.NEON {
		bf16ToF32NEON(dst, src)
		n &= 15
	}
	bf16ToF32Generic(dst[len(dst)-n:], src[len(dst)-n:])
}

func f32ToBF16(dst []uint16, src []float32) {
	n := len(dst)
	src = src[:n]
	if impl.Current() == impl.NEON {
		f32ToBF16NEON(dst, src)
		n &= 15
	}
	f32ToBF16Generic(dst[len(dst)-n:], src[len(dst)-n:])
}

func f16ToF32(dst []float32, src []uint16) {
	n := len(dst)
	src = src[:n]
	if impl.Current() == impl.NEON {
		f16ToF32NEON(dst, src)
		n &= 15
	}
	f16ToF32Generic(dst[len(dst)-n:], src[len(dst)-n:])
}

func f32ToF16(dst []uint16, src []float32) {
	n := len(dst)
	src = src[:n]
	if impl.Current() == impl.NEON {
		f32ToF16NEON(dst, src)
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
	if impl.Current() == impl.NEON {
		ropeNEON(dst, x, cos, sin, headDim, flip)
		return
	}
	ropeGeneric(dst, x, cos, sin, headDim, inverse)
}

func rmsGradient(dx, dw, dy, dres, x, w []float32, rstd, k float32) {
	n := len(dx)
	dw, dy, x, w = dw[:n], dy[:n], x[:n], w[:n]
	if dres != nil {
		dres = dres[:n]
	}
	if impl.Current() == impl.NEON {
		rmsGradientNEON(dx, dw, dy, dres, x, w, rstd, k)
		return
	}
	rmsGradientGeneric(dx, dw, dy, dres, x, w, rstd, k)
}

func layerGradient(dx, dw, db, dy, dres, x, w []float32, mean, rstd, k, c float32) {
	n := len(dx)
	dw, db, dy, x, w = dw[:n], db[:n], dy[:n], x[:n], w[:n]
	if dres != nil {
		dres = dres[:n]
	}
	if impl.Current() == impl.NEON {
		layerGradientNEON(dx, dw, db, dy, dres, x, w, mean, rstd, k, c)
		return
	}
	layerGradientGeneric(dx, dw, db, dy, dres, x, w, mean, rstd, k, c)
}

func adamw(p, m, v, g []float32, s *AdamWStep) {
	n := len(p)
	m, v, g = m[:n], v[:n], g[:n]
	c := [...]float32{s.Keep, s.Beta1, s.New1, s.Beta2, s.New2, s.Rate, s.Root, s.Eps, s.Scale}
	if impl.Current() == impl.NEON {
		adamwNEON(p, m, v, g, &c)
		return
	}
	adamwGeneric(p, m, v, g, s)
}

// blockSquares leaves a partial last block to Go.
func blockSquares(dst []float64, x []float32) {
	whole := 0
	if impl.Current() == impl.NEON {
		whole = len(x) / exactBlock
		blockSquaresNEON(dst[:whole], x)
	}
	blockSquaresGeneric(dst[whole:], x[whole*exactBlock:])
}

// normalFor returns the assembly of Normal and of how many elements it computes multiples.
func normalFor() (f normalFunc, unit int) {
	if impl.Current() == impl.NEON {
		return normalNEON, 4
	}
	return nil, 0
}

func randomWords(dst []uint32, seed, stream, k uint64) {
	c := [...]uint32{uint32(k), uint32(k >> 32), uint32(stream), uint32(stream >> 32), uint32(seed), uint32(seed >> 32)}
	if impl.Current() != impl.NEON || uint64(c[0])+uint64(len(dst)/4) > 1<<32 {
		randomWordsGeneric(dst, seed, stream, k)
		return
	}
	randomWordsNEON(dst, &c)
}

func dropSelect(dst, x []float32, words []uint32, below uint32, scale float32) {
	n := len(dst)
	x, words = x[:n], words[:n]
	if impl.Current() == impl.NEON {
		dropSelectNEON(dst, x, words, below, scale)
		return
	}
	dropSelectGeneric(dst, x, words, below, scale)
}

func dropGradient(p, dp []float32, words []uint32, below uint32, d float32) {
	n := len(p)
	dp, words = dp[:n], words[:n]
	if impl.Current() == impl.NEON {
		dropGradientNEON(p, dp, words, below, d)
		return
	}
	dropGradientGeneric(p, dp, words, below, d)
}

func dotsQuantized(y, x []float32, w []uint8, scales []float32) {
	if impl.Current() != impl.NEON {
		dotsQuantizedGeneric(y, x, w, scales)
		return
	}
	k := len(x)
	blocks, lds := k/quantBlock, (k+quantBlock-1)/quantBlock
	for n := range y {
		y[n] = dotQuantizedNEON(x[:blocks*quantBlock], w[n*k:][:blocks*quantBlock], scales[n*lds:][:blocks])
	}
}

func dequantize(dst []float32, w []uint8, scales []float32) {
	if impl.Current() == impl.NEON {
		dequantizeNEON(dst, w, scales)
		return
	}
	dequantizeGeneric(dst, w, scales)
}
