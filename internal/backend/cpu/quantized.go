package cpu

import (
	"math"
	"sort"
	"sync"

	"trireme/tensor"
)

// stateTensor is optimizer state.
type stateTensor struct {
	operand
	quantized *quantized // nil for floats
}

// load is elements [off, off+n), in tmp unless the state is F32.
func (s *stateTensor) load(off, n int, tmp []float32) []float32 {
	if s.quantized == nil {
		return s.operand.load(off, n, tmp)
	}
	s.quantized.load(off, tmp[:n])
	return tmp[:n]
}

func (s *stateTensor) store(off int, x []float32) {
	if s.quantized == nil {
		s.operand.store(off, x)
		return
	}
	s.quantized.store(off, x)
}

// quantized is 8-bit state with a scale per block.
type quantized struct {
	bytes  []uint8
	scales []float32
	m      *dynamicMap
}

// load dequantizes len(x) elements from off, the start of a block.
func (e *quantized) load(off int, x []float32) {
	for at := 0; at < len(x); at += tensor.StateBlock {
		b := x[at:min(at+tensor.StateBlock, len(x))]
		scale, from := e.scales[(off+at)/tensor.StateBlock], e.bytes[off+at:][:len(b)]
		for i, code := range from {
			b[i] = e.m.value[code] * scale
		}
	}
}

// store quantizes x to off, the start of a block.
func (e *quantized) store(off int, x []float32) {
	for at := 0; at < len(x); at += tensor.StateBlock {
		b := x[at:min(at+tensor.StateBlock, len(x))]
		to := e.bytes[off+at:][:len(b)]
		var maxBits uint32 // bits of a magnitude have its order
		for _, v := range b {
			maxBits = max(maxBits, math.Float32bits(v)&^(1<<31))
		}
		scale := math.Float32frombits(maxBits)
		e.scales[(off+at)/tensor.StateBlock] = scale
		if scale == 0 {
			clear(to)
			continue
		}
		inverse := 1 / scale
		for i, v := range b {
			to[i] = e.m.nearest(v * inverse)
		}
	}
}

// dynamicMap is tensor.DynamicMap in ascending order, with a search table. zero numbers are
// negative.
type dynamicMap struct {
	value [256]float32
	zero  uint8
	// midpoint of numbers k and k+1; the last is infinite
	above [256]float32
	// lowest is the nearest number to the least x with a given sign, exponent and upper 8 bits of
	// the fraction. Other x with these bits have the same or the next.
	lowest [1 << 17]uint8
}

var signedMap, unsignedMap = sync.OnceValue(func() *dynamicMap { return newMap(true) }), sync.OnceValue(func() *dynamicMap { return newMap(false) })

func dynamic(signed bool) *dynamicMap {
	if signed {
		return signedMap()
	}
	return unsignedMap()
}

func newMap(signed bool) *dynamicMap {
	values, zero := tensor.DynamicMap(signed)
	m := &dynamicMap{value: values, zero: uint8(zero)}
	number := func(k int) float32 { return values[uint8(k-zero)] }
	for k := range 255 {
		m.above[k] = (number(k) + number(k+1)) * 0.5
	}
	m.above[255] = float32(math.Inf(1))
	const rest = 1<<15 - 1 // the other bits of the fraction
	for i := range uint32(len(m.lowest)) {
		bits := i << 15
		if i >= 1<<16 { // of negative numbers, the largest magnitude
			bits |= rest
		}
		x := math.Float32frombits(bits)
		m.lowest[i] = uint8(sort.Search(255, func(k int) bool { return !(x > m.above[k]) }))
	}
	return m
}

// nearest is the byte of the nearest number to x; at a midpoint the lower one.
func (m *dynamicMap) nearest(x float32) uint8 {
	k := m.lowest[math.Float32bits(x)>>15]
	k += uint8(math.Float32bits(m.above[k]-x) >> 31) // 1 if x > above[k], without a branch
	return k - m.zero
}
