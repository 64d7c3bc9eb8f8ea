package tensor

import "slices"

// StateBlock is the number of elements of 8-bit state that share a scale: the largest magnitude
// among them.
const StateBlock = 256

// Unsigned says that state i of a rule is never negative.
func Unsigned(rule UpdateRule, i int) bool {
	switch rule.(type) {
	case AdamW, LAMB:
		return i == 1
	case Adagrad, Adafactor:
		return true
	}
	return false
}

// DynamicMap is bitsandbytes' dynamic map of 8 bits: 256 numbers from -1 (signed) or 0 to 1, close
// together near 0, each decade a power of two more of them than the one below it. Number i is
// what byte i stands for, so that 0 is the byte 0: ascending, the bytes are 256 - zero ... 255, 0, 1
// ... and zero of them are negative.
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
			mean := (tenth(i, n) + tenth(i+1, n)) / 2
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

// tenth is number i of n+1 from 0.1 to 1 at equal distances, as torch.linspace rounds them.
func tenth(i, n int) float32 {
	const first, last = float32(0.1), float32(1)
	step := (last - first) / float32(n)
	if i < (n+1)/2 {
		return float32(float64(first) + float64(step)*float64(i))
	}
	return float32(float64(last) - float64(step)*float64(n-i))
}
