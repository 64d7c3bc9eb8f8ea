package compose

import (
	"math"

	"trireme/tensor"
)

// All words of an accumulator but the last are 32-bit digits. Digit i counts units of 2^(32i-352).
const (
	digits = tensor.ExactWords - 1
	lowest = -352
)

func unit(i int) float64 { return math.Ldexp(1, 32*i+lowest) }

// ExactSquares adds sums of squares of zero-padded blocks.
func (o Ops) ExactSquares(acc, x, ends *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	n := x.Elems()
	blocks := (n + tensor.SumBlock - 1) / tensor.SumBlock
	f := s.New(tensor.F64, blocks, tensor.SumBlock)
	o.c.Fill(f, 0)
	o.c.Copy(f.Flat(0, n), x.Flat(0, n))
	sums := s.Reduce(s.Mul(f, f), 1, tensor.Add)
	if ends == nil {
		o.ExactAdd(acc, sums)
		return
	}
	at, start := s.With(s.Iota(tensor.I64, blocks, 1, 0), tensor.Mul, tensor.SumBlock), s.Scalar(tensor.I64, 0)
	for i := range ends.Elems() {
		end := ends.Flat(i, i+1)
		inGroup := s.Binary(s.Binary(at, start, tensor.Ge), s.Binary(at, end, tensor.Lt), tensor.And)
		o.ExactAdd(acc.Flat(i*tensor.ExactWords, (i+1)*tensor.ExactWords), s.Where(inGroup, sums, 0))
		start = end
	}
}

// ExactAdd splits each element into digits, highest first. Floor, the difference and products by
// powers of 2 are exact.
func (o Ops) ExactAdd(acc, x *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	x = x.Flat(0, x.Elems())
	size := s.Unary(x, tensor.Abs)
	fits := s.With(size, tensor.Lt, unit(digits)) // false for NaN
	rest := s.Where(fits, size, 0)
	sign := s.Select(s.With(x, tensor.Lt, 0), s.Scalar(tensor.I64, -1), s.Scalar(tensor.I64, 1))
	word := func(i int) *tensor.Tensor { return acc.Flat(i, i+1) }
	for i := digits - 1; i >= 0; i-- {
		digit := s.Unary(s.With(rest, tensor.Mul, 1/unit(i)), tensor.Floor)
		rest = s.Sub(rest, s.With(digit, tensor.Mul, unit(i)))
		s.Put(word(i), s.Reduce(s.Mul(s.As(tensor.I64, digit), sign), 1, tensor.Add), true)
	}
	s.Put(word(digits), s.Reduce(s.As(tensor.I64, s.With(fits, tensor.Xor, 1)), 1, tensor.Add), true)
	s.carry(acc.Reshape(1, tensor.ExactWords))
}

// carry moves the excess over 32 bits of each digit of acc [N ExactWords] to the next.
func (s *Scope) carry(acc *tensor.Tensor) {
	for i := range digits - 1 {
		w, next := acc.Cols(i, i+1), acc.Cols(i+1, i+2)
		over := s.With(w, tensor.Shr, 32)
		s.Put(w, s.With(w, tensor.And, math.MaxUint32), false)
		s.Put(next, over, true)
	}
}

// ExactValues collects 55 or more bits from the highest digits, with a sticky lowest bit for the
// rest. The conversion of that integer rounds.
func (o Ops) ExactValues(out, acc *tensor.Tensor) {
	s := NewScope(o.c)
	defer s.Release()
	n := out.Elems()
	words := s.New(tensor.I64, n, tensor.ExactWords)
	o.c.Copy(words, acc.Reshape(n, tensor.ExactWords))
	s.carry(words) // all digits but the highest are in [0, 2^32)
	negative := s.With(words.Cols(digits-1, digits), tensor.Lt, 0)
	whole := words.Cols(0, digits)
	s.Put(whole, s.Select(negative, s.Sub(s.Scalar(tensor.I64, 0), whole), whole), false)
	s.carry(words)

	zero := s.Scalar(tensor.I64, 0)
	bits, next, more := zero, zero, zero // collected bits, the next digit, and whether further ones are not 0
	scale := s.Scalar(tensor.F64, 0)     // of the lowest bit
	for i := digits - 1; i >= 0; i-- {
		d := words.Cols(i, i+1)
		fits := s.With(bits, tensor.Lt, 1<<30) // headroom for another digit
		extended := s.Add(s.With(bits, tensor.Shl, 32), d)
		isNext := s.Binary(s.With(scale, tensor.Eq, unit(i+1)), s.With(fits, tensor.Xor, 1), tensor.And)
		bits = s.Select(fits, extended, bits)
		next = s.Select(isNext, d, next)
		inRest := s.Binary(s.With(d, tensor.Ne, 0), s.With(s.Binary(fits, isNext, tensor.Or), tensor.Xor, 1), tensor.And)
		more = s.Select(inRest, s.Scalar(tensor.I64, 1), more)
		scale = s.Select(fits, s.Scalar(tensor.F64, unit(i)), scale)
	}
	// bits has 31 to 62 bits; up to 24 bits of next extend it to 55 or more.
	take := s.With(s.As(tensor.I64, s.With(bits, tensor.Lt, 1<<54)), tensor.Mul, 8)
	for _, limit := range []float64{1 << 46, 1 << 38} {
		take = s.Add(take, s.With(s.As(tensor.I64, s.With(bits, tensor.Lt, limit)), tensor.Mul, 8))
	}
	left := s.Sub(s.Scalar(tensor.I64, 32), take)
	bits = s.Binary(s.Binary(bits, take, tensor.Shl), s.Binary(next, left, tensor.Shr), tensor.Or)
	rest := s.Sub(next, s.Binary(s.Binary(next, left, tensor.Shr), left, tensor.Shl))
	sticky := s.Binary(s.With(rest, tensor.Ne, 0), s.With(more, tensor.Ne, 0), tensor.Or)
	bits = s.Binary(bits, s.As(tensor.I64, sticky), tensor.Or)
	v := s.Div(s.Mul(s.As(tensor.F64, bits), scale), s.As(tensor.F64, s.Binary(s.Scalar(tensor.I64, 1), take, tensor.Shl)))
	v = s.Select(negative, s.RSub(0, v), v)
	finite := s.With(words.Cols(digits, digits+1), tensor.Eq, 0)
	s.Put(out, s.Where(finite, v, math.NaN()), false)
}
