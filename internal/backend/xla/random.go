package xla

import "trireme/tensor"

// Words is Philox4x32-10 (Salmon et al. 2011) in 64-bit integers, as in tensor/compose, with a stream
// that may differ from iteration to iteration of a loop.
func (e *emitter) Words(dst, at *tensor.Tensor, key tensor.RandKey) {
	e.store(dst, e.words(e.flat(e.load(at)), key))
}

// words are the elements v (I64 [n]) of a stream.
func (e *emitter) words(v value, key tensor.RandKey) value {
	n := v.size()
	num := func(x uint64) value { return e.splat("i64", float64(x), n) }
	low := func(x value) value { return e.binary("and", x, num(0xffffffff)) }
	high := func(x value) value { return e.binary("shift_right_logical", x, num(32)) }
	k := e.binary("shift_right_logical", v, num(2))
	c0, c1, c2, c3 := low(k), high(k), num(key.Stream&0xffffffff), num(key.Stream>>32)
	if stream, ok := e.streams[key.Stream]; ok {
		all := e.broadcast(e.reshape(stream), nil, n)
		c2, c3 = low(all), high(all)
	}
	k0, k1 := uint32(key.Seed), uint32(key.Seed>>32)
	xor := func(x, y value) value { return e.binary("xor", x, y) }
	for range 10 {
		p, q := e.binary("multiply", c0, num(0xD2511F53)), e.binary("multiply", c2, num(0xCD9E8D57))
		c0, c2 = xor(xor(high(q), c1), num(uint64(k0))), xor(xor(high(p), c3), num(uint64(k1)))
		c1, c3 = low(q), low(p)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	index := e.binary("and", v, num(3))
	is := func(i uint64) value { return e.compare(index, num(i), "EQ") }
	return e.selects(is(0), c0, e.selects(is(1), c1, e.selects(is(2), c2, c3)))
}
