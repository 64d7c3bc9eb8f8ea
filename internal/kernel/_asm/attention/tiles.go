package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Loops over scores with keys as rows and 64 queries as columns: four vectors, without sums over
// lanes. Masks have a bit per query.
const queryVectors = 4

// halfPairs rounds to bfloat16 and interleaves two vectors.
type halfPairs struct{ half, upper VecPhysical }

func newHalfPairs() halfPairs {
	h := halfPairs{zmm(), zmm()}
	r := GP32()
	MOVL(U32(0x8000), r)
	VPBROADCASTD(r, h.half)
	MOVL(U32(0xffff0000), r)
	VPBROADCASTD(r, h.upper)
	return h
}

// round leaves the bfloat16 in the upper half of each lane; with a mask, other lanes become 0.
func (h halfPairs) round(x VecPhysical, mask *Mem) {
	if mask == nil {
		VPADDD(h.half, x, x)
		return
	}
	k := K()
	KMOVW(*mask, k)
	VPADDD_Z(h.half, x, k, x)
}

// store writes lo into the lower halves and hi into the upper. It uses a scratch vector.
func (h halfPairs) store(lo, hi VecPhysical, to Mem) {
	defer scope()()
	t := zmm()
	VPSRLD(Imm(16), lo, t)
	VPTERNLOGD(Imm(0xf8), hi, h.upper, t) // t | hi & upper
	VMOVUPS(t, to)
}

// queryMask is the mask of vector v of the row-th key from p.
func queryMask(p GPVirtual, row, v int) Mem { return Mem{Base: p, Disp: 8*row + 2*v} }

// queryScores is vector v of the row-th key from p.
func queryScores(p GPVirtual, row, v int) Mem { return Mem{Base: p, Disp: 256*row + 64*v} }

// powers loads the scores of two vectors of two keys, and replaces them by 2^(score*scale-base), or by
// 0 where the query does not see the key, in the order key, vector; next key, vector; and so on.
func powers(s, seen GPVirtual, v int, scale VecPhysical, base, c []VecPhysical) (x []VecPhysical, masks []OpmaskVirtual) {
	x = zmms(4)
	for i := range x {
		VMOVUPS(queryScores(s, i%2, v+i/2), x[i])
		k := K()
		KMOVW(queryMask(seen, i%2, v+i/2), k)
		masks = append(masks, k)
	}
	for i := range x {
		VFMSUB213PS(base[v+i/2], scale, x[i])
	}
	exp2Of(x, c, func(i int, p VecPhysical) { VSCALEFPS_Z(x[i], p, masks[i], x[i]) })
	return x, masks
}

func tileSoftmaxAVX512() {
	defer scope()()
	begin("attnTileSoftmaxAVX512", "func(dst *uint16, panel int, s *float32, keys int, seen, kept *uint64, scale float32, top, sum, corr *float32)", "attnTileSoftmaxAVX512 is attnTileSoftmaxGeneric with AVX-512.")
	c := exp2Consts()
	h := newHalfPairs()
	scale := zmm()
	VBROADCASTSS(argAt("scale"), scale)

	s, seen, keys := arg("s"), arg("seen"), arg("keys")
	top := zmms(queryVectors)
	inf := constant(float32(math.Inf(-1)))
	for _, z := range top {
		VMOVAPS(inf, z)
	}
	Label("max")
	for row := range 2 {
		for v := range queryVectors {
			release := scope()
			x, k := zmm(), K()
			VMULPS(queryScores(s, row, v), scale, x)
			KMOVW(queryMask(seen, row, v), k)
			VMAXPS(x, top[v], k, top[v])
			release()
		}
	}
	ADDQ(U32(2*256), s)
	ADDQ(Imm(16), seen)
	SUBQ(Imm(2), keys)
	JNZ(LabelRef("max"))

	ptop, pcorr := arg("top"), arg("corr")
	for v := range queryVectors {
		release := scope()
		old, some := zmm(), K()
		VMOVUPS(Mem{Base: ptop, Disp: 64 * v}, old)
		VMAXPS(old, top[v], top[v])
		VMOVUPS(top[v], Mem{Base: ptop, Disp: 64 * v})
		VCMPPS(Imm(4), inf, top[v], some) // if nothing was visible so far, subtract 0
		VMOVAPS_Z(top[v], some, top[v])
		VSUBPS(top[v], old, old)
		exp2([]VecPhysical{old}, c)
		VMOVUPS(old, Mem{Base: pcorr, Disp: 64 * v})
		release()
	}
	sum := zmms(queryVectors)
	for _, z := range sum {
		VPXORD(z, z, z)
	}
	s, seen, keys = arg("s"), arg("seen"), arg("keys")
	kept, dst, panel := arg("kept"), arg("dst"), arg("panel")
	LEAQ(Mem{Base: dst, Index: panel, Scale: 2}, panel)
	to := []GPVirtual{dst, panel}
	left := GP64() // pairs of this step
	Label("step")
	MOVQ(U32(16), left)
	Label("pair")
	for v := 0; v < queryVectors; v += 2 {
		release := scope()
		x, _ := powers(s, seen, v, scale, top, c)
		for i := range x {
			VADDPS(x[i], sum[v+i/2], sum[v+i/2])
		}
		for i := range x {
			m := queryMask(kept, i%2, v+i/2)
			h.round(x[i], &m)
		}
		for i := range 2 {
			h.store(x[2*i], x[2*i+1], Mem{Base: to[v/2], Disp: 1024 * i})
		}
		release()
	}
	ADDQ(U32(2*256), s)
	ADDQ(Imm(16), seen)
	ADDQ(Imm(16), kept)
	for _, p := range to {
		ADDQ(Imm(64), p)
	}
	DECQ(left)
	JNZ(LabelRef("pair"))
	for _, p := range to {
		ADDQ(U32(1024), p)
	}
	SUBQ(Imm(32), keys)
	JNZ(LabelRef("step"))
	psum := arg("sum")
	pcorr = arg("corr")
	for v, z := range sum {
		old := c[0]
		VMOVUPS(Mem{Base: psum, Disp: 64 * v}, old)
		VFMADD231PS(Mem{Base: pcorr, Disp: 64 * v}, old, z)
		VMOVUPS(z, Mem{Base: psum, Disp: 64 * v})
	}
	VZEROUPPER()
	RET()
}

func tileGradientAVX512() {
	defer scope()()
	begin("attnTileGradientAVX512", "func(p, ds *uint16, strip int, pairs *uint16, panel int, s, dp *float32, keys int, seen, kept *uint64, scale float32, lse, d *float32)", "attnTileGradientAVX512 is attnTileGradientGeneric with AVX-512.")
	c := exp2Consts()
	h := newHalfPairs()
	scale := zmm()
	VBROADCASTSS(argAt("scale"), scale)
	lse, d := zmms(queryVectors), zmms(queryVectors)
	for v := range queryVectors {
		p := arg("lse")
		VMOVUPS(Mem{Base: p, Disp: 64 * v}, lse[v])
		p = arg("d")
		VMOVUPS(Mem{Base: p, Disp: 64 * v}, d[v])
	}
	s, dp, seen, kept, keys := arg("s"), arg("dp"), arg("seen"), arg("kept"), arg("keys")
	p, ds, pairs := arg("p"), arg("ds"), arg("pairs")
	other := arg("panel")
	LEAQ(Mem{Base: pairs, Index: other, Scale: 2}, other)
	panels := []GPVirtual{pairs, other}
	left := GP64() // pairs of this strip
	Label("strip")
	MOVQ(U32(16), left)
	Label("pair")
	for v := 0; v < queryVectors; v += 2 {
		release := scope()
		x, masks := powers(s, seen, v, scale, lse, c)
		z := zmms(4)
		for i := range z {
			k := K()
			KMOVW(queryMask(kept, i%2, v+i/2), k)
			VMOVUPS_Z(queryScores(dp, i%2, v+i/2), k, z[i])
			VSUBPS(d[v+i/2], z[i], z[i])
			VMULPS_Z(x[i], z[i], masks[i], z[i])
		}
		for i := range x {
			m := queryMask(kept, i%2, v+i/2)
			h.round(x[i], &m)
			h.round(z[i], nil)
		}
		for row := range 2 {
			at := 64*row + 2048*(v/2)
			h.store(x[row], x[2+row], Mem{Base: p, Disp: at})
			h.store(z[row], z[2+row], Mem{Base: ds, Disp: at})
			h.store(z[2*row], z[2*row+1], Mem{Base: panels[v/2], Disp: 1024 * row})
		}
		release()
	}
	ADDQ(U32(2*256), s)
	ADDQ(U32(2*256), dp)
	ADDQ(Imm(16), seen)
	ADDQ(Imm(16), kept)
	SUBQ(I8(-128), p)
	SUBQ(I8(-128), ds)
	for _, q := range panels {
		ADDQ(Imm(64), q)
	}
	DECQ(left)
	JNZ(LabelRef("pair"))
	for _, q := range panels {
		ADDQ(U32(1024), q)
	}
	strip := arg("strip")
	LEAQ(Mem{Base: p, Index: strip, Scale: 2, Disp: -2048}, p)
	LEAQ(Mem{Base: ds, Index: strip, Scale: 2, Disp: -2048}, ds)
	SUBQ(Imm(32), keys)
	JNZ(LabelRef("strip"))
	VZEROUPPER()
	RET()
}

func scaleColumnsAVX512() {
	defer scope()()
	begin("attnScaleColumnsAVX512", "func(x *float32, rows int, f *float32)", "attnScaleColumnsAVX512 is attnScaleColumnsGeneric with AVX-512.")
	x, rows, p := arg("x"), arg("rows"), arg("f")
	f := zmms(queryVectors)
	for v := range f {
		VMOVUPS(Mem{Base: p, Disp: 64 * v}, f[v])
	}
	Label("row")
	for v := range f {
		z := zmm()
		VMULPS(Mem{Base: x, Disp: 64 * v}, f[v], z)
		VMOVUPS(z, Mem{Base: x, Disp: 64 * v})
	}
	ADDQ(U32(256), x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func dropMaskAVX512() {
	defer scope()()
	begin("attnDropMaskAVX512", "func(dst *uint16, words *uint32, vectors int, below uint32)", "attnDropMaskAVX512 is attnDropMaskGeneric with AVX-512, 16 words at a time.")
	dst, words, n := arg("dst"), arg("words"), arg("vectors")
	below := zmm()
	VPBROADCASTD(Load(Param("below"), GP32()), below)
	Label("vector")
	x, k := zmm(), K()
	VMOVDQU32(Mem{Base: words}, x)
	VPCMPUD(Imm(5), below, x, k) // not below
	KMOVW(k, Mem{Base: dst})
	ADDQ(Imm(64), words)
	ADDQ(Imm(2), dst)
	DECQ(n)
	JNZ(LabelRef("vector"))
	VZEROUPPER()
	RET()
}
