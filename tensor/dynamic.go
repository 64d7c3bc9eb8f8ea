package tensor

import "slices"

// StateBlock is the number of elements of 8-bit state that share a scale, their largest magnitude.
const StateBlock = 256

// Unsigned reports whether state i of a rule is never negative.
func Unsigned(rule UpdateRule, i int) bool {
	switch rule.(type) {
	case AdamW, LAMB:
		return i == 1
	case Adagrad, Adafactor:
		return true
	}
	return false
}

// DynamicMap is the dynamic 8-bit quantization map of bitsandbytes: 256 numbers from -1 (signed) or
// 0 to 1, denser near 0. Each decade has twice the numbers of the one below. m[i] is the value of
// byte i, with byte 0 for 0. In ascending order the bytes are 256-zero ... 255, 0, 1, ...; zero of
// them are negative.
func DynamicMap(signed bool) (m [256]float32, zero int) {
	const decades = 7
	var all []float32
	scale := 1e-6
	for d := range decades {
		n := 1 << d
		if !signed {
			n *= 2
		}
		for i := range n {
			mean := (linspace(i, n) + linspace(i+1, n)) / 2
			all = append(all, float32(scale)*mean)
			if signed {
				all = append(all, -float32(scale)*mean)
			}
		}
		scale *= 10
	}
	all = append(all, 0, 1)
	slices.Sort(all)
	zero = slices.Index(all, 0)
	for i, v := range all {
		m[(i-zero)&255] = v
	}
	return m, zero
}

// linspace is element i of n+1 evenly spaced numbers from 0.1 to 1, rounded as torch.linspace
// rounds them.
func linspace(i, n int) float32 {
	const first, last = float32(0.1), float32(1)
	step := (last - first) / float32(n)
	if i < (n+1)/2 {
		return float32(float64(first) + float64(step)*float64(i))
	}
	return float32(float64(last) - float64(step)*float64(n-i))
}
