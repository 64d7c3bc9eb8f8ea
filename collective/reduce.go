package collective

import (
	"trireme/internal/kernel"
	"trireme/tensor"
)

// block is the number of elements summed at a time. The running sum stays in the L1 cache.
const block = 2048

func as[E tensor.Elem](b []byte, dt tensor.DType) []E {
	if len(b) == 0 {
		return nil
	}
	return tensor.Host[E](tensor.Of(tensor.NewBuffer(b, len(b), tensor.Workspace, nil), dt, 0, len(b)/dt.Size()))
}

// reduce sets dst to (dst,) srcs[0], srcs[1], ... reduced by op in this order. srcs are the ranks' data, of
// type st. dt, the type of dst, is st; or F32 if st is BF16 or F16; or BF16 or F16 if st is F32. dst may be
// one of srcs if the types are equal, unless accumulate.
func reduce(dst []byte, dt tensor.DType, srcs [][]byte, st tensor.DType, op Op, accumulate bool) {
	switch {
	case dt == tensor.F32 && st == tensor.F32:
		fold(as[float32](dst, dt), views[float32](srcs, st), op, accumulate)
	case dt == tensor.F64:
		fold(as[float64](dst, dt), views[float64](srcs, st), op, accumulate)
	case dt == tensor.I32:
		fold(as[int32](dst, dt), views[int32](srcs, st), op, accumulate)
	case dt == tensor.I64:
		fold(as[int64](dst, dt), views[int64](srcs, st), op, accumulate)
	default:
		foldWide(dst, dt, srcs, st, op, accumulate)
	}
}

func reducible(dt, st tensor.DType) bool {
	float := func(t tensor.DType) bool { return t == tensor.F32 || t == tensor.BF16 || t == tensor.F16 }
	return float(dt) && float(st) && (dt == st || dt == tensor.F32 || st == tensor.F32) || dt == st && (dt == tensor.F64 || dt == tensor.I32 || dt == tensor.I64)
}

type number interface {
	float32 | float64 | int32 | int64
}

func views[E tensor.Elem](srcs [][]byte, st tensor.DType) [][]E {
	v := make([][]E, len(srcs))
	for i, s := range srcs {
		v[i] = as[E](s, st)
	}
	return v
}

func fold[E number](dst []E, srcs [][]E, op Op, accumulate bool) {
	var acc [block]E // dst may be one of srcs
	for lo := 0; lo < len(dst); lo += block {
		hi := min(lo+block, len(dst))
		out, run := dst[lo:hi], acc[:hi-lo]
		switch {
		case accumulate:
			for _, s := range srcs {
				combine(out, out, s[lo:hi], op)
			}
			continue
		case len(srcs) == 1:
			copy(out, srcs[0][lo:hi])
			continue
		}
		first, last := srcs[0][lo:hi], srcs[len(srcs)-1][lo:hi]
		for _, s := range srcs[1 : len(srcs)-1] {
			combine(run, first, s[lo:hi], op)
			first = run
		}
		combine(out, first, last, op)
	}
}

// add: dst[i] = a[i] + b[i]; dst may be a or b.
func add[E number](dst, a, b []E) {
	if d, ok := any(dst).([]float32); ok {
		kernel.Add(d, any(a).([]float32), any(b).([]float32))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// combine: dst[i] = a[i] op b[i]; dst may be a or b.
func combine[E number](dst, a, b []E, op Op) {
	switch op {
	case Sum:
		add(dst, a, b)
	case Max:
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	}
}

// foldWide is fold for mixes of F32, BF16 and F16, with an F32 accumulator.
func foldWide(dst []byte, dt tensor.DType, srcs [][]byte, st tensor.DType, op Op, accumulate bool) {
	var acc, wide [block]float32
	n := len(dst) / dt.Size()
	for lo := 0; lo < n; lo += block {
		hi := min(lo+block, n)
		run, rest := acc[:hi-lo], srcs
		if accumulate {
			widen(run, dst, dt, lo)
		} else {
			widen(run, srcs[0], st, lo)
			rest = srcs[1:]
		}
		for _, s := range rest {
			widen(wide[:hi-lo], s, st, lo)
			combine(run, run, wide[:hi-lo], op)
		}
		switch dt {
		case tensor.F32:
			copy(as[float32](dst, dt)[lo:hi], run)
		case tensor.BF16:
			kernel.F32ToBF16(as[uint16](dst, dt)[lo:hi], run)
		default:
			kernel.F32ToF16(as[uint16](dst, dt)[lo:hi], run)
		}
	}
}

// widen converts elements lo, lo+1, ... of an F32, BF16 or F16 vector to F32.
func widen(dst []float32, src []byte, dt tensor.DType, lo int) {
	switch dt {
	case tensor.F32:
		copy(dst, as[float32](src, dt)[lo:])
	case tensor.BF16:
		kernel.BF16ToF32(dst, as[uint16](src, dt)[lo:][:len(dst)])
	default:
		kernel.F16ToF32(dst, as[uint16](src, dt)[lo:][:len(dst)])
	}
}
