package kernel

//go:generate go -C _asm run ./vector -out ..

// One generator writes the assembly of the kernels in vector.go, convert.go, norm.go, swiglu.go,
// gelu.go, rope.go, xent.go, adamw.go, exact.go and quantized.go. Add, AddScaled, conversions and exact sums have
// the same bits in every version. The others agree up to rounding: assembly sums in float32 lanes,
// fuses multiply-adds and has its own exponential. Within a version the bits of an element depend
// only on its operands, and those of a row sum also on the row's width.

// Add sets dst[i] = a[i] + b[i]. The slices have equal length; dst may be a or b.
func Add(dst, a, b []float32) { add(dst, a, b) }

func addGeneric(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// AddScaled sets dst[i] = a[i] + s*b[i], with the product rounded before the sum. dst may be a or b.
func AddScaled(dst, a, b []float32, s float32) { addScaled(dst, a, b, s) }

func addScaledGeneric(dst, a, b []float32, s float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		p := float32(s * b[i]) // the conversion prevents a fused multiply-add
		dst[i] = a[i] + p
	}
}
