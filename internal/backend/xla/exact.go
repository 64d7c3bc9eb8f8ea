package xla

import (
	"math"

	"trireme/tensor"
)

const (
	digits = tensor.ExactWords - 1
	lowest = -352 // exponent of the lowest digit's unit
)

// ExactAdd computes all digits of all elements at once: digit i is the integral part of the fraction of
// |x| / 2^(32i+32+lowest), times 2^32. These products, Floor and the difference are exact.
func (e *emitter) ExactAdd(acc, x *tensor.Tensor) {
	n := x.Elems()
	if n == 0 {
		return
	}
	v := e.flat(e.load(x))
	all := func(v float64) value { return e.splat("f64", v, n) }
	size := e.op("abs", "", "f64", v.dims, v)
	fits := e.compare(size, all(math.Ldexp(1, 32*digits+lowest)), "LT") // false for NaN
	size = e.selects(fits, size, all(0))
	negative := e.compare(v, all(0), "LT")
	sign := e.selects(negative, e.splat("i64", -1, n), e.splat("i64", 1, n))
	scales := make([]float64, digits)
	for i := range scales {
		scales[i] = math.Ldexp(1, -(32*i + 32 + lowest))
	}
	dims := []int{n, digits}
	part := e.binary("multiply", e.broadcast(size, []int{0}, dims...), e.broadcast(e.table("f64", scales), []int{1}, dims...))
	part = e.binary("subtract", part, e.op("floor", "", "f64", dims, part))
	digit := e.convert(e.op("floor", "", "f64", dims, e.binary("multiply", part, e.splat("f64", 0x1p32, dims...))), "i64")
	sums := e.reduce(e.binary("multiply", digit, e.broadcast(sign, []int{0}, dims...)), 0, "add", 0)
	bad := e.reduce(e.convert(e.op("not", "", boolean, fits.dims, fits), "i64"), 0, "add", 0)
	e.store(acc, e.carry(e.binary("add", e.flat(e.load(acc)), e.concat(0, sums, e.reshape(bad, 1)))))
}

// carry moves the excess over 32 bits of each digit to the next.
func (e *emitter) carry(acc value) value {
	words := make([]value, tensor.ExactWords)
	for i := range words {
		words[i] = e.slice(acc, []int{i}, []int{i + 1})
	}
	for i := range digits - 1 {
		over := e.binary("shift_right_arithmetic", words[i], e.splat("i64", 32, 1))
		words[i] = e.binary("and", words[i], e.splat("i64", math.MaxUint32, 1))
		words[i+1] = e.binary("add", words[i+1], over)
	}
	return e.concat(0, words...)
}
