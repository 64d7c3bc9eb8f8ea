package main

import (
	"fmt"

	"trireme/asm/arm"
)

// rowNEON emits row for 16 columns, in groups of four that each have a sum of four lanes.
func rowNEON(b *arm.Builder, kind rowKind) {
	const groups = 4
	name, words := rowNames[kind]+"NEON", 16
	if kind == rowFloats {
		words = 32
	}
	b.Begin(name, "func(steps int, x, w *float32, ldw int, out *float32)", fmt.Sprintf(`sets out[r], r in [0, 16), to
//
//	sum := 0; for kk in [0, 32*steps): %s
//
// ldw is in words of 4 bytes. It prefetches the rows that follow. steps is not 0.`, rowSums[kind]))
	steps, x, w, ldw := b.Arg("steps"), b.Arg("x"), b.Arg("w"), b.Arg("ldw")
	b.Op("LSL $2, R%d, R%d", ldw, ldw)
	var rows [4 * groups]arm.Reg
	for r := range rows {
		rows[r] = b.G()
		if r == 0 {
			b.Op("MOVD R%d, R%d", w, rows[r])
		} else {
			b.Op("ADD R%d, R%d, R%d", ldw, rows[r-1], rows[r])
		}
	}
	soon := b.G()
	b.Op("ADD R%d, R%d, R%d", ldw, rows[len(rows)-1], soon)
	var sums [groups]arm.Reg
	for g := range sums {
		sums[g] = b.Zero()
	}
	b.Label("step")
	for i := 0; i < words; i += 4 {
		xs := []arm.Reg{b.Load(x, 4*i)}
		if kind == rowWide {
			xs = []arm.Reg{b.Load(x, 8*i), b.Load(x, 8*i+16)}
		}
		for g, sum := range sums {
			var r [4]arm.Reg
			for q := range r {
				r[q] = b.V()
				b.Op("FMOVQ.P 16(R%d), F%d", rows[4*g+q], r[q])
			}
			b.Op("PRFM (R%d), PLDL2KEEP", soon)
			b.Op("ADD $64, R%d", soon)
			for k, v := range b.Transpose(r) {
				if kind == rowFloats {
					b.FMALane(sum, v, xs[0], k)
					continue
				}
				b.FMALane(sum, b.Left(v, 16), xs[k/2], k%2*2)
				b.FMALane(sum, b.And(v, b.Const(0xffff0000)), xs[k/2], k%2*2+1)
			}
		}
	}
	b.Op("ADD $128, R%d", x)
	b.Op("SUBS $1, R%d, R%d", steps, steps)
	b.Branch("step", "BNE")
	out := b.Arg("out")
	for g, sum := range sums {
		b.Store(sum, out, 16*g)
	}
	b.End()
}

// transposeNEON emits transpose for eight rows.
func transposeNEON(b *arm.Builder) {
	const rows = 8
	b.Begin("transposeNEON", "func(dst *float32, ldd int, src *float32, lds int, n int)", `sets dst[c*ldd+r] = src[r*lds+c] for r in [0, 8) and c in [0, n);
// n is a multiple of 4, not 0.`)
	dst, ldd, src, lds, n := b.Arg("dst"), b.Arg("ldd"), b.Arg("src"), b.Arg("lds"), b.Arg("n")
	b.Op("LSL $2, R%d, R%d", ldd, ldd)
	b.Op("LSL $2, R%d, R%d", lds, lds)
	var p [rows]arm.Reg
	for r := range p {
		p[r] = b.G()
		if r == 0 {
			b.Op("MOVD R%d, R%d", src, p[r])
		} else {
			b.Op("ADD R%d, R%d, R%d", lds, p[r-1], p[r])
		}
	}
	b.Label("loop")
	var columns [2][4]arm.Reg
	for h := range columns {
		var r [4]arm.Reg
		for q := range r {
			r[q] = b.V()
			b.Op("FMOVQ.P 16(R%d), F%d", p[4*h+q], r[q])
		}
		columns[h] = b.Transpose(r)
	}
	for k := range 4 {
		b.Store(columns[0][k], dst, 0)
		b.Store(columns[1][k], dst, 16)
		b.Op("ADD R%d, R%d, R%d", ldd, dst, dst)
	}
	b.Op("SUBS $4, R%d, R%d", n, n)
	b.Branch("loop", "BNE")
	b.End()
}
