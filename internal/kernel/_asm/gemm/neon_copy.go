package main

import (
	"fmt"

	"trireme/asm/arm"
)

// copyNEON emits a copy of rows of 8 or 12 columns, from float32 or, by kind, BF16 or F16.
func copyNEON(b *arm.Builder, columns int, kind string) {
	name, elem := copyName("NEON", columns, kind)
	b.Begin(name, fmt.Sprintf("func(dst *float32, ldd int, src *%s, lds, rows int, mask uint64)", elem),
		fmt.Sprintf("sets dst[r*ldd+c] = src[r*lds+c] for r in [0, rows) and c in [0, %d). rows is not 0, mask is ignored.", columns))
	size := 4
	if kind != "" {
		size = 2
	}
	dst, ldd, src, lds, rows := b.Arg("dst"), b.Arg("ldd"), b.Arg("src"), b.Arg("lds"), b.Arg("rows")
	b.Op("LSL $2, R%d, R%d", ldd, ldd)
	b.Op("LSL $%d, R%d, R%d", size/2, lds, lds)
	b.Label("loop")
	values := make([]arm.Reg, columns/4)
	for i := range values {
		if kind == "" {
			values[i] = b.Load(src, 16*i)
			continue
		}
		v := b.V()
		b.Op("FMOVD %d(R%d), F%d", 8*i, src, v)
		if kind == "BF16" {
			values[i] = b.OfBF16(v)
		} else {
			values[i] = b.OfHalf(v)
		}
	}
	for i, v := range values {
		b.Store(v, dst, 16*i)
	}
	b.Op("ADD R%d, R%d, R%d", lds, src, src)
	b.Op("ADD R%d, R%d, R%d", ldd, dst, dst)
	b.Op("SUBS $1, R%d, R%d", rows, rows)
	b.Branch("loop", "BNE")
	b.End()
}
