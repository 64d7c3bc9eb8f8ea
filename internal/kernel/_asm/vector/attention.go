package main

import (
	"trireme/asm/arm"
)

// exp2C are the coefficients of exp2 in attention_generic.go, from the highest power on.
var exp2C = []float64{0x1.bf73eap-13, 0x1.48fd10p-10, 0x1.3cbf84p-07, 0x1.c6929ep-05, 0x1.ebfcd2p-03, 0x1.62e42ep-01, 1}

// attention emits inner loops of attention for NEON, row by row; internal/kernel/attention_arm64.go loops over rows. Those
// of AVX-512 and AVX2, which take four rows at a time, are in _asm/attention.
func (m *machine) attention() {
	b := m.arm
	m.function("attnSoftmax", "func(x []float32, base float32) float32", "is the second half of attnSoftmaxGeneric for the visible part of a row: it sets x[i] = 2^(x[i]-base), or 0 below 2^-126, and returns the sum in F32 lanes.")
	x := m.base("x")
	base := m.scalar("base")
	sums := m.accumulators(2)
	m.loop("x", "", 2, func(u int) {
		e := m.exp2(m.sub(m.get(x, u), base))
		m.put(e, x, u)
		m.addTo(sums[u], m.keep(e))
	})
	m.single(m.reduce(m.add(sums[0], sums[1]), false))
	m.end()

	m.function("attnGradient", "func(p, dp []float32, lse, d float32)", "is attnGradientGeneric for the visible part of a row: it sets p[i] = 2^(p[i]-lse) and dp[i] = p[i]*(dp[i]-d).")
	p, dp := m.base("p"), m.base("dp")
	lse, d := m.scalar("lse"), m.scalar("d")
	m.loop("p", "", 2, func(u int) {
		e := m.exp2(m.sub(m.get(p, u), lse))
		m.put(m.mul(e, m.sub(m.get(dp, u), d)), dp, u)
		m.put(e, p, u)
	})
	m.end()

	m.function("attnScale", "func(dst, src []float32, f float32)", "is attnScaleGeneric for a row.")
	dst, src := m.base("dst"), m.base("src")
	f := m.scalar("f")
	m.loop("dst", "", 4, func(u int) { m.put(m.mul(m.get(src, u), f), dst, u) })
	m.end()

	m.function("attnDot", "func(a, b []float32) float32", "is attnDotGeneric for a row, in F32 lanes.")
	x, y := m.base("a"), m.base("b")
	acc := m.accumulators(4)
	m.loop("a", "", 4, func(u int) { m.fma(acc[u], m.get(x, u), m.get(y, u)) })
	m.single(m.reduce(m.add(m.add(acc[0], acc[1]), m.add(acc[2], acc[3])), false))
	m.end()

	product(b)
}

// exp2 computes 2^x with 0 for subnormal results; NaN stays NaN.
func (m *machine) exp2(v vec) vec {
	b := m.arm
	x := b.Min(b.Float(128), b.Max(b.Float(-127), m.a(v)))
	n := b.Floor(x)
	x = b.Sub(x, n)
	p := m.load(m.f(exp2C[0]))
	for _, c := range exp2C[1:] {
		m.horner(&p, x, m.f(c))
	}
	return b.Mul(m.a(p), b.Left(b.AddWords(b.ToWords(n), b.Const(127)), 23))
}

// product loops over halves of panels of 32 columns and, within, over tiles of 4 x 16.
func product(b *arm.Builder) {
	const rows, vectors = 4, 4
	b.Begin("attnProductNEON", "func(c *float32, ldc int, a *float32, ars, aks int, b *float32, bks, bps, m, n, k, accumulate int)", "is attnProductGeneric with NEON.")
	stride := func(name string) arm.Reg {
		r := b.Arg(name)
		b.Op("LSL $2, R%d, R%d", r, r)
		return r
	}
	ldc, ars, aks, bks := stride("ldc"), stride("ars"), stride("aks"), stride("bks")
	c, bp, n := b.Arg("c"), b.Arg("b"), b.Arg("n")
	half := b.G() // 0 or 64: the offset in the panel
	b.Op("MOVD $0, R%d", half)
	b.Label("half")
	aTile, m := b.Arg("a"), b.Arg("m")
	cTile := b.G()
	b.Op("MOVD R%d, R%d", c, cTile)

	b.Label("rows")
	var acc [rows][vectors]arm.Reg
	for r := range acc {
		for v := range acc[r] {
			acc[r][v] = b.Zero()
		}
	}
	at := func(base, stride arm.Reg) (p [rows]arm.Reg) {
		for r := range p {
			p[r] = b.G()
			if r == 0 {
				b.Op("MOVD R%d, R%d", base, p[r])
			} else {
				b.Op("ADD R%d, R%d, R%d", stride, p[r-1], p[r])
			}
		}
		return p
	}
	pa, pb, k := at(aTile, ars), b.G(), b.Arg("k")
	b.Op("MOVD R%d, R%d", bp, pb)
	b.Branch("sums", "CBZ R%d,", k)
	b.Label("loop")
	var bv [vectors]arm.Reg
	for v := range bv {
		bv[v] = b.Load(pb, 16*v)
	}
	for r := range acc {
		x := b.Repeat(pa[r])
		b.Op("ADD R%d, R%d, R%d", aks, pa[r], pa[r])
		for v := range bv {
			b.FMA(acc[r][v], bv[v], x)
		}
	}
	b.Op("ADD R%d, R%d, R%d", bks, pb, pb)
	b.Op("SUBS $1, R%d, R%d", k, k)
	b.Branch("loop", "BNE")
	b.Label("sums")

	pc, accumulate := at(cTile, ldc), b.Arg("accumulate")
	b.Branch("store", "CBZ R%d,", accumulate)
	for r := range acc {
		for v := range acc[r] {
			b.Accumulate(acc[r][v], b.Load(pc[r], 16*v))
		}
	}
	b.Label("store")
	for r := range acc {
		for v := range acc[r] {
			b.Store(acc[r][v], pc[r], 16*v)
		}
	}
	b.Op("ADD R%d<<2, R%d, R%d", ldc, cTile, cTile)
	b.Op("ADD R%d<<2, R%d, R%d", ars, aTile, aTile)
	b.Op("SUBS $%d, R%d, R%d", rows, m, m)
	b.Branch("rows", "BNE")

	b.Op("ADD $64, R%d", bp)
	b.Op("EOR $64, R%d", half)
	b.Branch("next", "CBNZ R%d,", half)
	bps := stride("bps")
	b.Op("ADD R%d, R%d, R%d", bps, bp, bp)
	b.Op("SUB $128, R%d", bp)
	b.Label("next")
	b.Op("ADD $64, R%d", c)
	b.Op("SUBS $16, R%d, R%d", n, n)
	b.Branch("half", "BNE")
	b.End()
}
