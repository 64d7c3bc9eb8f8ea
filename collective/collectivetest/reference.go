package collectivetest

import (
	"encoding/binary"
	"math"
	"sync"

	"trireme/collective"
	"trireme/tensor"
)

// made caches what values, total and reduced return, by their arguments. It is read-only, and for all ranks and worlds.
var made sync.Map

// once returns the value of make for key, which is computed once.
func once(key any, make func() []byte) []byte {
	f, ok := made.Load(key)
	if !ok {
		f, _ = made.LoadOrStore(key, sync.OnceValue(make))
	}
	return f.(func() []byte)()
}

// values returns rank who's data: finite numbers whose sums depend on the order.
func values(dt tensor.DType, n, who int) []byte {
	type key struct {
		dt     tensor.DType
		n, who int
	}
	return once(key{dt, n, who}, func() []byte {
		b := make([]byte, n*dt.Size())
		x := uint64(who)*0x9e3779b97f4a7c15 + 12345
		for i := range n {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			v := (float64(x>>11)/(1<<53) - 0.5) * float64(uint64(1)<<(x%13))
			put(b, dt, i, v)
		}
		return b
	})
}

func put(b []byte, dt tensor.DType, i int, v float64) {
	le := binary.LittleEndian
	switch dt {
	case tensor.F32:
		le.PutUint32(b[4*i:], math.Float32bits(float32(v)))
	case tensor.BF16:
		le.PutUint16(b[2*i:], nearestBF16(float32(v)))
	case tensor.F16:
		le.PutUint16(b[2*i:], nearestF16(float32(v)))
	case tensor.F64:
		le.PutUint64(b[8*i:], math.Float64bits(v))
	case tensor.I32:
		le.PutUint32(b[4*i:], uint32(int32(v*1000)))
	case tensor.I64:
		le.PutUint64(b[8*i:], uint64(int64(v*1e9)))
	case tensor.U8:
		b[i] = byte(int(v * 10))
	}
}

// nearestBF16 rounds to the nearer neighbor, ties to even.
func nearestBF16(v float32) uint16 {
	lo := uint16(math.Float32bits(v) >> 16)
	at := func(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) }
	a, b := math.Abs(float64(v)-at(lo)), math.Abs(float64(v)-at(lo+1))
	if a < b || a == b && lo&1 == 0 {
		return lo
	}
	return lo + 1
}

// nearestF16 rounds to the nearer neighbor, ties to even. v is in range.
func nearestF16(v float32) uint16 {
	a := math.Abs(float64(v))
	_, exp := math.Frexp(a)
	step := math.Ldexp(1, max(exp-11, -24)) // distance of float16 numbers near a
	n := uint16(math.RoundToEven(a / step)) // 1024 to 2048, or less if subnormal
	h := n
	if exp > -13 && n > 0 {
		h = uint16(exp+13)<<10 + n
	}
	if math.Signbit(float64(v)) {
		h |= 0x8000
	}
	return h
}

func fromF16(h uint16) float32 {
	exp, v := int(h>>10&31), float64(h&0x3ff)
	if exp > 0 {
		v += 1024
	}
	v = math.Ldexp(v, max(exp, 1)-25)
	if h>>15 > 0 {
		v = -v
	}
	return float32(v)
}

func total(dt tensor.DType, m, n int, op collective.Op) []byte {
	type key struct {
		dt   tensor.DType
		m, n int
		op   collective.Op
	}
	return once(key{dt, m, n, op}, func() []byte { return reference(dt, dt, nil, parts(dt, m, n), op) })
}

// reduced is the sum of chunk c of all parts of type st, added to the values of rank 100+who if accumulate.
func reduced(dt, st tensor.DType, m, n, c, who int, accumulate bool) []byte {
	type key struct {
		dt, st       tensor.DType
		m, n, c, who int
	}
	if !accumulate {
		who = -1
	}
	return once(key{dt, st, m, n, c, who}, func() []byte {
		var begin []byte
		if accumulate {
			begin = values(dt, m, 100+who)
		}
		return reference(dt, st, begin, chunks(parts(st, n*m, n), c, n), collective.Sum)
	})
}

// reference reduces parts in order, in F32 for F32, F16 and BF16. begin may be nil.
func reference(dt, st tensor.DType, begin []byte, parts [][]byte, op collective.Op) []byte {
	n := len(parts[0]) / st.Size()
	out := make([]byte, n*dt.Size())
	for i := range n {
		switch st {
		case tensor.I32:
			store32(out, i, run(i, begin, parts, op, func(b []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(b[4*i:])) }))
		case tensor.I64:
			binary.LittleEndian.PutUint64(out[8*i:], uint64(run(i, begin, parts, op, func(b []byte, i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) })))
		case tensor.F64:
			binary.LittleEndian.PutUint64(out[8*i:], math.Float64bits(run(i, begin, parts, op, func(b []byte, i int) float64 {
				return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
			})))
		default:
			load := func(t tensor.DType) func([]byte, int) float32 {
				return func(b []byte, i int) float32 {
					switch t {
					case tensor.F16:
						return fromF16(binary.LittleEndian.Uint16(b[2*i:]))
					case tensor.BF16:
						return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
					}
					return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
				}
			}
			var v float32
			if begin != nil {
				v = load(dt)(begin, i)
				for _, p := range parts {
					v += load(st)(p, i)
				}
			} else {
				v = run(i, nil, parts, op, load(st))
			}
			switch dt {
			case tensor.F16:
				binary.LittleEndian.PutUint16(out[2*i:], nearestF16(v))
			case tensor.F32:
				binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(v))
			default:
				binary.LittleEndian.PutUint16(out[2*i:], nearestBF16(v))
			}
		}
	}
	return out
}

func store32(b []byte, i int, v int32) { binary.LittleEndian.PutUint32(b[4*i:], uint32(v)) }

func run[E int32 | int64 | float32 | float64](i int, begin []byte, parts [][]byte, op collective.Op, load func([]byte, int) E) E {
	if begin != nil {
		parts = append([][]byte{begin}, parts...)
	}
	v := load(parts[0], i)
	for _, p := range parts[1:] {
		x := load(p, i)
		switch {
		case op == collective.Sum:
			v += x
		case x > v:
			v = x
		}
	}
	return v
}
