package kernel

import "math"

// SwiGLU sets dst[i] = silu(gate[i]) * up[i], with silu(x) = x / (1 + exp(-x)) (Shazeer 2020). dst may
// be gate or up.
func SwiGLU(dst, gate, up []float32) { swiglu(dst, gate, up) }

func swigluGeneric(dst, gate, up []float32) {
	gate, up = gate[:len(dst)], up[:len(dst)]
	for i := range dst {
		g := float64(gate[i])
		dst[i] = float32(g * sigmoid(g) * float64(up[i]))
	}
}

// SwiGLUBackward computes, with s = sigmoid(gate), dup = dy * gate*s and
// dgate = dy * up * s * (1 + gate*(1-s)). Any output may be any input.
func SwiGLUBackward(dgate, dup, dy, gate, up []float32) { swigluBackward(dgate, dup, dy, gate, up) }

func swigluBackwardGeneric(dgate, dup, dy, gate, up []float32) {
	n := len(dgate)
	dup, dy, gate, up = dup[:n], dy[:n], gate[:n], up[:n]
	for i := range dgate {
		g, d := float64(gate[i]), float64(dy[i])
		s := sigmoid(g)
		u := float64(up[i])
		dgate[i] = float32(d * u * s * (1 + g*(1-s)))
		dup[i] = float32(d * g * s)
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
