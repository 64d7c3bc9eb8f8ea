package kernel

// quantBlock is tensor.QuantBlock.
const quantBlock = 64

// MatVecQuantized sets y[n] = sum over k of x[k] * w[n*K+k] * scale, K = len(x), for 8-bit weights w [N K] in two's
// complement with a scale for each 64 of a row. Versions sum in another order; the order depends on K only.
func MatVecQuantized(y, x []float32, w []uint8, scales []float32) {
	k := len(x)
	blocks := (k + quantBlock - 1) / quantBlock
	whole := k / quantBlock
	if whole > 0 {
		dotsQuantized(y, x, w, scales)
	} else {
		clear(y)
	}
	for n := 0; n < len(y) && whole < blocks; n++ {
		y[n] += dotQuantizedGeneric(x[whole*quantBlock:], w[n*k:][whole*quantBlock:k], scales[n*blocks+whole:][:1])
	}
}

// quantizedStreams computes groups of rows by run, which computes rows that are stride rows apart: each row of a group is a stream of
// memory, as of rowKernel. It returns how many it computed.
func quantizedStreams(y []float32, rows int, run func(row, stride int, y *float32)) (done int) {
	var sums [rowColumns]float32
	for left := len(y); left >= rows; left = len(y) - done {
		length := min(rowStream, left/rows-1|1)
		for i := range length {
			run(done+i, length, &sums[0])
			for s, v := range sums[:rows] {
				y[done+s*length+i] = v
			}
		}
		done += rows * length
	}
	return done
}

// dotsQuantizedGeneric sets y to the products of x with the whole blocks of each row of w.
func dotsQuantizedGeneric(y, x []float32, w []uint8, scales []float32) {
	k := len(x)
	whole, blocks := k/quantBlock, (k+quantBlock-1)/quantBlock
	for n := range y {
		y[n] = dotQuantizedGeneric(x[:whole*quantBlock], w[n*k:][:whole*quantBlock], scales[n*blocks:][:whole])
	}
}

// dotQuantizedGeneric has a sum for each fourth element of a block.
func dotQuantizedGeneric(x []float32, w []uint8, scales []float32) float32 {
	var sum float32
	for b, s := range scales {
		hi := min((b+1)*quantBlock, len(x))
		p, q := x[b*quantBlock:hi], w[b*quantBlock:hi]
		var l [4]float32
		i := 0
		for ; i+4 <= len(p); i += 4 {
			u, v := p[i:i+4:i+4], q[i:i+4:i+4]
			l[0] += u[0] * float32(int8(v[0]))
			l[1] += u[1] * float32(int8(v[1]))
			l[2] += u[2] * float32(int8(v[2]))
			l[3] += u[3] * float32(int8(v[3]))
		}
		for ; i < len(p); i++ {
			l[0] += p[i] * float32(int8(q[i]))
		}
		sum += ((l[0] + l[2]) + (l[1] + l[3])) * s
	}
	return sum
}

// Dequantize sets dst to a row of 8-bit weights times their scales. All versions have the same bits.
func Dequantize(dst []float32, w []uint8, scales []float32) {
	whole := len(dst) &^ (quantBlock - 1)
	dequantize(dst[:whole], w[:whole], scales[:whole/quantBlock])
	if whole < len(dst) {
		dequantizeGeneric(dst[whole:], w[whole:len(dst)], scales[whole/quantBlock:])
	}
}

func dequantizeGeneric(dst []float32, w []uint8, scales []float32) {
	for i := range dst {
		dst[i] = float32(int8(w[i])) * scales[i/quantBlock]
	}
}
