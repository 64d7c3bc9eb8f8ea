package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const productArgs = "func(c *float32, ldc int, a *float32, ars, aks int, b *float32, bks, bps, m, n, k, accumulate int)"

// productAVX512 loops over panels of 32 columns and, within, over tiles of 8 rows. An 8 x 32 tile
// keeps 16 sums in registers: a step over k takes 2 loads of b and 8 broadcasts of a.
func productAVX512() {
	const rows = 8
	begin("attnProductAVX512", productArgs, "attnProductAVX512 is attnProductGeneric with AVX-512.")
	t := newProduct(rows, 16)
	Label("panel")
	CMPQ(t.n, Imm(32))
	JL(LabelRef("narrow"))
	t.tiles("wide", 2)
	bps := GP64()
	MOVQ(argAt("bps"), bps)
	LEAQ(Mem{Base: t.b, Index: bps, Scale: 4}, t.b)
	ADDQ(Imm(128), t.c)
	SUBQ(Imm(32), t.n)
	JMP(LabelRef("panel"))
	Label("narrow")
	TESTQ(t.n, t.n)
	JZ(LabelRef("done"))
	t.tiles("half", 1)
	Label("done")
	VZEROUPPER()
	RET()
}

// productAVX2 loops over halves of panels and, within, over tiles of 4 x 16.
func productAVX2() {
	const rows = 4
	begin("attnProductAVX2", productArgs, "attnProductAVX2 is attnProductGeneric with AVX2.")
	t := newProduct(rows, 8)
	half := GP64() // 0 or 64: the offset in the panel
	XORQ(half, half)
	Label("half")
	t.tiles("tile", 2)
	bps := GP64()
	ADDQ(Imm(64), t.b)
	XORQ(Imm(64), half)
	JNZ(LabelRef("next"))
	MOVQ(argAt("bps"), bps)
	LEAQ(Mem{Base: t.b, Index: bps, Scale: 4}, t.b)
	ADDQ(I8(-128), t.b)
	Label("next")
	ADDQ(Imm(64), t.c)
	SUBQ(Imm(16), t.n)
	JNZ(LabelRef("half"))
	VZEROUPPER()
	RET()
}

// product is the state of a product between tiles: the number of remaining columns, and their start in
// b and c.
type product struct {
	tile, lanes        int // rows of a tile, floats of a vector
	n, b, c            GPVirtual
	ars, aks, bks      GPVirtual
	m, aTile, cTile, k GPVirtual
	pa                 strided
	pb                 GPVirtual
}

func newProduct(tile, lanes int) *product {
	t := &product{tile: tile, lanes: lanes}
	t.ars, t.aks, t.bks = stride("ars"), stride("aks"), stride("bks")
	t.n, t.b, t.c = arg("n"), arg("b"), arg("c")
	t.m, t.aTile, t.cTile, t.k, t.pb = GP64(), GP64(), GP64(), GP64(), GP64()
	t.pa = newStrided(t.ars, tile)
	return t
}

func (t *product) vector() VecVirtual {
	if t.lanes == 16 {
		return ZMM()
	}
	return YMM()
}

// tiles computes width vectors of columns of all rows, tile by tile.
func (t *product) tiles(name string, width int) {
	MOVQ(argAt("a"), t.aTile)
	MOVQ(t.c, t.cTile)
	MOVQ(argAt("m"), t.m)
	Label(name + "rows")
	acc := make([][]VecVirtual, t.tile)
	for r := range acc {
		for range width {
			z := t.vector()
			VXORPS(z, z, z)
			acc[r] = append(acc[r], z)
		}
	}
	t.pa.set(t.aTile)
	MOVQ(t.b, t.pb)
	step := func() {
		var bv []VecVirtual
		for w := range width {
			z := t.vector()
			VMOVUPS(Mem{Base: t.pb, Disp: 4 * t.lanes * w}, z)
			bv = append(bv, z)
		}
		for r := range t.tile {
			z := t.vector()
			VBROADCASTSS(t.pa.row(r), z)
			for w := range width {
				VFMADD231PS(z, bv[w], acc[r][w])
			}
		}
		t.pa.advance(t.aks)
		ADDQ(t.bks, t.pb)
	}
	MOVQ(argAt("k"), t.k)
	SUBQ(Imm(4), t.k)
	JL(LabelRef(name + "tail"))
	Label(name + "loop")
	for range 4 {
		step()
	}
	SUBQ(Imm(4), t.k)
	JGE(LabelRef(name + "loop"))
	Label(name + "tail")
	ADDQ(Imm(4), t.k)
	JZ(LabelRef(name + "end"))
	Label(name + "one")
	step()
	DECQ(t.k)
	JNZ(LabelRef(name + "one"))
	Label(name + "end")

	// The registers of a are free now.
	ldc := t.k
	MOVQ(argAt("ldc"), ldc)
	SHLQ(U8(2), ldc)
	pc := strided{base: t.pa.base, ld: ldc}
	pc.set(t.cTile)
	CMPQ(argAt("accumulate"), Imm(0))
	JE(LabelRef(name + "store"))
	for r := range t.tile {
		for w := range width {
			at := pc.row(r)
			at.Disp = 4 * t.lanes * w
			VADDPS(at, acc[r][w], acc[r][w])
		}
	}
	Label(name + "store")
	for r := range t.tile {
		for w := range width {
			at := pc.row(r)
			at.Disp = 4 * t.lanes * w
			VMOVUPS(acc[r][w], at)
		}
	}
	LEAQ(Mem{Base: t.cTile, Index: ldc, Scale: uint8(t.tile)}, t.cTile)
	LEAQ(Mem{Base: t.aTile, Index: t.ars, Scale: uint8(t.tile)}, t.aTile)
	SUBQ(Imm(uint64(t.tile)), t.m)
	JNZ(LabelRef(name + "rows"))
}
