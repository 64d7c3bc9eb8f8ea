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

// carry moves the excess over 32 bits of each digit to the next, all at once. Digits may then exceed 32
// bits by what they got, which bounds them over any number of sums.
func (e *emitter) carry(acc value) value {
	n := digits - 1
	low, rest := e.slice(acc, []int{0}, []int{n}), e.slice(acc, []int{n}, []int{n + 2})
	over := e.binary("shift_right_arithmetic", low, e.splat("i64", 32, n))
	low = e.binary("and", low, e.splat("i64", math.MaxUint32, n))
	return e.binary("add", e.concat(0, low, rest), e.concat(0, e.splat("i64", 0, 1), over, e.splat("i64", 0, 1)))
}
