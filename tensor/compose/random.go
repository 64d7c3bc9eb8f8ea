package compose

import (
	"math"

	"trireme/tensor"
)

// Words is Philox4x32-10 (Salmon et al. 2011) in 64-bit integers: counter (at/4, stream), key seed,
// word at%4.
func (o Ops) Words(dst, at *tensor.Tensor, key tensor.RandKey) {
	s := NewScope(o.c)
	defer s.Release()
	const word = 0xffffffff
	low := func(x *tensor.Tensor) *tensor.Tensor { return s.With(x, tensor.And, word) }
	high := func(x *tensor.Tensor) *tensor.Tensor { return s.With(x, tensor.Ushr, 32) }
	xor := func(x, y *tensor.Tensor) *tensor.Tensor { return s.Binary(x, y, tensor.Xor) }
	k := s.With(at, tensor.Ushr, 2)
	zero := s.With(at, tensor.And, 0)
	c0, c1 := low(k), high(k)
	c2, c3 := s.With(zero, tensor.Add, float64(uint32(key.Stream))), s.With(zero, tensor.Add, float64(key.Stream>>32))
	k0, k1 := uint32(key.Seed), uint32(key.Seed>>32)
	for range 10 {
		p, q := s.With(c0, tensor.Mul, 0xD2511F53), s.With(c2, tensor.Mul, 0xCD9E8D57)
		c0, c2 = s.With(xor(high(q), c1), tensor.Xor, float64(k0)), s.With(xor(high(p), c3), tensor.Xor, float64(k1))
		c1, c3 = low(q), low(p)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	index := s.With(at, tensor.And, 3)
	is := func(i float64) *tensor.Tensor { return s.With(index, tensor.Eq, i) }
	s.Put(dst, s.Select(is(0), c0, s.Select(is(1), c1, s.Select(is(2), c2, c3))), false)
}

// words are the stream's elements at a matrix of indices.
func (s *Scope) words(at *tensor.Tensor, key tensor.RandKey) *tensor.Tensor {
	w := s.New(tensor.I64, at.Rows(), at.Width())
	if native, ok := s.c.(tensor.Random); ok {
		native.Words(w, at, key)
	} else {
		NewOps(s.c).Words(w, at, key)
	}
	return w
}

// Normal is the Box-Muller transform (1958). A pair's first two words are the bits of u, the others
// of v; elements 2k and 2k+1 are sqrt(-2 log u) times cos and sin of 2 pi v.
func (o Ops) Normal(dst *tensor.Tensor, key tensor.RandKey, first int64, std float64) {
	s := NewScope(o.c)
	defer s.Release()
	n, skip := dst.Elems(), int(first&1)
	pairs := (skip + n + 1) / 2
	at := s.New(tensor.I64, pairs, 4)
	o.c.Binary(at, s.With(s.With(s.Iota(tensor.I64, pairs, 1, 0), tensor.Mul, 4), tensor.Add, float64(first/2*4)), s.Iota(tensor.I64, 1, 4, 1), tensor.Add)
	w := s.words(at, key)
	unit := func(i int) *tensor.Tensor { // the upper 53 of 64 bits
		bits := s.Binary(s.With(w.Cols(i+1, i+2), tensor.Shl, 32), w.Cols(i, i+1), tensor.Or)
		return s.With(bits, tensor.Ushr, 11)
	}
	u := s.With(s.As(tensor.F64, s.With(unit(0), tensor.Add, 1)), tensor.Mul, 0x1p-53)
	v := s.With(s.As(tensor.F64, unit(2)), tensor.Mul, 2*math.Pi*0x1p-53)
	r := s.With(s.Unary(s.With(s.Unary(u, tensor.Log), tensor.Mul, -2), tensor.Sqrt), tensor.Mul, std)
	both := s.New(tensor.F64, pairs, 2)
	s.Put(both.Cols(0, 1), s.Mul(r, s.Unary(v, tensor.Cos)), false)
	s.Put(both.Cols(1, 2), s.Mul(r, s.Unary(v, tensor.Sin)), false)
	s.Put(dst, both.Flat(skip, skip+n), false)
}

// Dropout: dst = x/(1-p), or 0 if the element's word is below p 2^32.
func (o Ops) Dropout(dst, x *tensor.Tensor, key tensor.RandKey, rows *tensor.Tensor, p float64) {
	s := NewScope(o.c)
	defer s.Release()
	width := x.Width()
	at := s.Add(s.With(Column(rows), tensor.Mul, float64(width)), s.Iota(tensor.I64, 1, width, 1))
	s.Put(dst, s.dropout(x, s.words(at, key), p), false)
}

// dropout is x/(1-p), or 0 for words below p 2^32.
func (s *Scope) dropout(x, words *tensor.Tensor, p float64) *tensor.Tensor {
	return s.Where(s.With(words, tensor.Ge, math.Ceil(p*0x1p32)), s.With(x, tensor.Mul, 1/(1-p)), 0)
}
