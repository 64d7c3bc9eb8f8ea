package kernel

import "math"

// Constants of the tanh approximation (Hendrycks and Gimpel 2016).
const (
	geluRoot = 0.79788456080286535588 // sqrt(2/pi)
	geluCube = 0.044715
)

// GELUTanh sets dst[i] = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))). dst may be x.
func GELUTanh(dst, x []float32) { geluTanh(dst, x) }

func geluTanhGeneric(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		v := float64(x[i])
		dst[i] = float32(0.5 * v * (1 + math.Tanh(geluRoot*(v+geluCube*v*v*v))))
	}
}

// GELUTanhBackward sets dx[i] = dy[i] * d GELUTanh(x[i]) / dx. dx may be dy or x.
func GELUTanhBackward(dx, dy, x []float32) { geluTanhBackward(dx, dy, x) }

func geluTanhBackwardGeneric(dx, dy, x []float32) {
	dy, x = dy[:len(dx)], x[:len(dx)]
	for i := range dx {
		v := float64(x[i])
		t := math.Tanh(geluRoot * (v + geluCube*v*v*v))
		d := 0.5 * (1 + t)
		if t != 1 && t != -1 { // the square of a large x may be infinite
			d += 0.5 * v * (1 - t*t) * geluRoot * (1 + 3*geluCube*v*v)
		}
		dx[i] = float32(float64(dy[i]) * d)
	}
}

// GELUErf sets dst[i] = x/2 * (1 + erf(x/sqrt(2))). dst may be x.
func GELUErf(dst, x []float32) { geluErf(dst, x) }

func geluErfGeneric(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		v := float64(x[i])
		dst[i] = float32(0.5 * v * math.Erfc(-v*(1/math.Sqrt2)))
	}
}

// GELUErfBackward sets dx[i] = dy[i] * d GELUErf(x[i]) / dx. dx may be dy or x.
func GELUErfBackward(dx, dy, x []float32) { geluErfBackward(dx, dy, x) }

func geluErfBackwardGeneric(dx, dy, x []float32) {
	const density = 0.39894228040143267794 // 1/sqrt(2 pi)
	dy, x = dy[:len(dx)], x[:len(dx)]
	for i := range dx {
		v := float64(x[i])
		d := 0.5*math.Erfc(-v*(1/math.Sqrt2)) + v*density*math.Exp(-0.5*v*v)
		dx[i] = float32(float64(dy[i]) * d)
	}
}
