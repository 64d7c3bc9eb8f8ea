package kernel

//go:generate go -C _asm run ./vector -out ..

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
