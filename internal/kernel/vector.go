package kernel

//go:generate go -C _asm run ./vector -out ..

// The assembly of the kernels in vector.go, convert.go, norm.go, swiglu.go, gelu.go, rope.go,
// xent.go, adamw.go and exact.go is generated together. Add, AddScaled, conversions and exact
// sums have the same bits in every variant. The others agree to rounding: assembly sums in
// lanes of F32, fuses multiply-adds and has an exponential of its own. Within a variant an
// element's bits depend on its operands only, and a row's sum on its width too.

// Add: dst[i] = a[i] + b[i]. The slices have one length; dst may be a or b.
func Add(dst, a, b []float32) { add(dst, a, b) }

func addGeneric(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// AddScaled: dst[i] = a[i] + s*b[i], the product rounded before the sum. dst may be a or b.
func AddScaled(dst, a, b []float32, s float32) { addScaled(dst, a, b, s) }

func addScaledGeneric(dst, a, b []float32, s float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		p := float32(s * b[i]) // the conversion forbids a fused multiply-add
		dst[i] = a[i] + p
	}
}
