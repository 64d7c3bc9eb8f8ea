package kernel

import "math"

// Tanh sets dst[i] = tanh(x[i]). dst may be x.
func Tanh(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = float32(math.Tanh(float64(x[i])))
	}
}

// TanhBackward sets dx[i] = dy[i] * (1 - y[i]^2). dx may be dy or y.
func TanhBackward(dx, dy, y []float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i := range dx {
		v := float64(y[i])
		dx[i] = float32(float64(dy[i]) * (1 - v*v))
	}
}
