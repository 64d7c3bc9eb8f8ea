package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const productArgs = "func(c *float32, ldc int, a *float32, ars, aks int, b *float32, bks, bps, m, n, k, accumulate int)"

// productAVX512 goes over panels of 32 columns and, within, over tiles of 8 rows. A tile of
// 8 x 32 keeps 16 sums in registers: a step over k takes 2 loads of b and 8 broadcasts of a.
func productAVX512() {
	const rows = 8
	begin("attnProductAVX512", productArgs, "attnProductAVX512 is attnProductGeneric with AVX-512.")
	ars, aks, bks := stride("ars"), stride("aks"), stride("bks")
	n := arg("n")
	bPanel, cPanel := arg("b"), arg("c")
	m, aTile, cTile := GP64(), GP64(), GP64()
	pa := newStrided(ars, rows)
	b, k := GP64(), GP64()

	tile := func(name string, width int) {
		MOVQ(argAt("a"), aTile)
		MOVQ(cPanel, cTile)
		MOVQ(argAt("m"), m)
		Label(name + "rows")
		acc := make([][]VecVirtual, rows)
		for r := range acc {
			for range width {
				z := ZMM()
				VPXORD(z, z, z)
				acc[r] = append(acc[r], z)
			}
		}
		pa.set(aTile)
		MOVQ(bPanel, b)
		step := func() {
			var bv []VecVirtual
			for w := range width {
				z := ZMM()
				VMOVUPS(Mem{Base: b, Disp: 64 * w}, z)
				bv = append(bv, z)
			}
			for r := range rows {
				z := ZMM()
				VBROADCASTSS(pa.row(r), z)
				for w := range width {
					VFMADD231PS(z, bv[w], acc[r][w])
				}
			}
			pa.advance(aks)
			ADDQ(bks, b)
		}
		MOVQ(argAt("k"), k)
		SUBQ(Imm(4), k)
		JL(LabelRef(name + "tail"))
		Label(name + "loop")
		for range 4 {
			step()
		}
		SUBQ(Imm(4), k)
		JGE(LabelRef(name + "loop"))
		Label(name + "tail")
		ADDQ(Imm(4), k)
		JZ(LabelRef(name + "end"))
		Label(name + "one")
		step()
		DECQ(k)
		JNZ(LabelRef(name + "one"))
		Label(name + "end")

		// The registers of a are free now.
		ldc := k
		MOVQ(argAt("ldc"), ldc)
		SHLQ(U8(2), ldc)
		pc := strided{base: pa.base, ld: ldc}
		pc.set(cTile)
		CMPQ(argAt("accumulate"), Imm(0))
		JE(LabelRef(name + "store"))
		for r := range rows {
			for w := range width {
				at := pc.row(r)
				at.Disp = 64 * w
				VADDPS(at, acc[r][w], acc[r][w])
			}
		}
		Label(name + "store")
		for r := range rows {
			for w := range width {
				at := pc.row(r)
				at.Disp = 64 * w
				VMOVUPS(acc[r][w], at)
			}
		}
		LEAQ(Mem{Base: cTile, Index: ldc, Scale: 8}, cTile)
		LEAQ(Mem{Base: aTile, Index: ars, Scale: 8}, aTile)
		SUBQ(Imm(rows), m)
		JNZ(LabelRef(name + "rows"))
	}

	Label("panel")
	CMPQ(n, Imm(32))
	JL(LabelRef("narrow"))
	tile("wide", 2)
	bps := k
	MOVQ(argAt("bps"), bps)
	LEAQ(Mem{Base: bPanel, Index: bps, Scale: 4}, bPanel)
	ADDQ(Imm(128), cPanel)
	SUBQ(Imm(32), n)
	JMP(LabelRef("panel"))
	Label("narrow")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	tile("half", 1)
	Label("done")
	VZEROUPPER()
	RET()
}
