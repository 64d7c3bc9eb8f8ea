package kernel

// Squares returns the sum of x[i]^2, in an order that depends only on len(x).
func Squares(x []float32) float64 { return squares(x) }

func squaresGeneric(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// Sum returns the sum of x[i], in an order that depends only on len(x).
func Sum(x []float32) float64 { return sum(x) }

func sumGeneric(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}

// CenteredSquares returns the sum of (x[i]-mean)^2.
func CenteredSquares(x []float32, mean float32) float64 { return centeredSquares(x, mean) }

func centeredSquaresGeneric(x []float32, mean float32) float64 {
	var s float64
	for _, v := range x {
		d := float64(v - mean)
		s += d * d
	}
	return s
}

// RMSScale sets y[i] = x[i] * rstd * w[i]. y may be x.
func RMSScale(y, x, w []float32, rstd float32) { rmsScale(y, x, w, rstd) }

func rmsScaleGeneric(y, x, w []float32, rstd float32) {
	x, w = x[:len(y)], w[:len(y)]
	for i := range y {
		y[i] = x[i] * rstd * w[i]
	}
}

// Dot3 returns the sum of a[i]*b[i]*c[i].
func Dot3(a, b, c []float32) float64 { return dot3(a, b, c) }

func dot3Generic(a, b, c []float32) float64 {
	b, c = b[:len(a)], c[:len(a)]
	var s float64
	for i := range a {
		s += float64(a[i]) * float64(b[i]) * float64(c[i])
	}
	return s
}

// RMSGradient sets dx[i] = dres[i] + rstd*dy[i]*w[i] - k*x[i] and adds dy[i]*x[i]*rstd to dw[i]. A nil
// dres counts as 0. dx may be dy or dres.
func RMSGradient(dx, dw, dy, dres, x, w []float32, rstd, k float32) {
	rmsGradient(dx, dw, dy, dres, x, w, rstd, k)
}

func rmsGradientGeneric(dx, dw, dy, dres, x, w []float32, rstd, k float32) {
	n := len(dx)
	dw, dy, x, w = dw[:n], dy[:n], x[:n], w[:n]
	for i := range dx {
		d := dy[i]
		g := d*rstd*w[i] - k*x[i]
		dw[i] += d * (x[i] * rstd)
		if dres != nil {
			g += dres[i]
		}
		dx[i] = g
	}
}

// LayerScale sets y[i] = (x[i]-mean)*rstd*w[i] + b[i]. y may be x.
func LayerScale(y, x, w, b []float32, mean, rstd float32) { layerScale(y, x, w, b, mean, rstd) }

func layerScaleGeneric(y, x, w, b []float32, mean, rstd float32) {
	n := len(y)
	x, w, b = x[:n], w[:n], b[:n]
	for i := range y {
		y[i] = (x[i]-mean)*rstd*w[i] + b[i]
	}
}

// LayerDots returns the sums of dy[i]*w[i] and of dy[i]*w[i]*(x[i]-mean).
func LayerDots(dy, w, x []float32, mean float32) (g, gx float64) { return layerDots(dy, w, x, mean) }

func layerDotsGeneric(dy, w, x []float32, mean float32) (g, gx float64) {
	w, x = w[:len(dy)], x[:len(dy)]
	for i := range dy {
		p := float64(dy[i]) * float64(w[i])
		g += p
		gx += p * float64(x[i]-mean)
	}
	return g, gx
}

// LayerGradient sets dx[i] = dres[i] + rstd*dy[i]*w[i] - k*(x[i]-mean) - c, and adds
// dy[i]*(x[i]-mean)*rstd to dw[i] and dy[i] to db[i]. A nil dres counts as 0. dx may be dy or dres.
func LayerGradient(dx, dw, db, dy, dres, x, w []float32, mean, rstd, k, c float32) {
	layerGradient(dx, dw, db, dy, dres, x, w, mean, rstd, k, c)
}

func layerGradientGeneric(dx, dw, db, dy, dres, x, w []float32, mean, rstd, k, c float32) {
	n := len(dx)
	dw, db, dy, x, w = dw[:n], db[:n], dy[:n], x[:n], w[:n]
	for i := range dx {
		d, xc := dy[i], x[i]-mean
		g := d*rstd*w[i] - k*xc - c
		dw[i] += d * (xc * rstd)
		db[i] += d
		if dres != nil {
			g += dres[i]
		}
		dx[i] = g
	}
}
