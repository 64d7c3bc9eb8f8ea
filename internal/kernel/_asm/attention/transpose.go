package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// transposeAVX512 transposes blocks of 16 x 16 in registers: first within groups of 4 rows, then the
// 128-bit lanes of the groups.
func transposeAVX512() {
	begin("attnTransposeAVX512", "func(dst, src *float32, sld, rows, cols, pcols int)", "attnTransposeAVX512 is attnTransposeGeneric with AVX-512 for whole blocks of 16 x 16 of rows of pcols columns.")
	dst, src, sld := arg("dst"), arg("src"), stride("sld")
	rows := arg("rows")
	ld3 := GP64()
	LEAQ(Mem{Base: sld, Index: sld, Scale: 2}, ld3)
	half := GP64() // 0 or 64: which half of the panel
	XORQ(half, half)
	Label("rows")
	cols := arg("cols")
	from, to := GP64(), GP64()
	MOVQ(src, from)
	LEAQ(Mem{Base: dst, Index: half, Scale: 1}, to)
	Label("block")
	var r [16]VecVirtual
	for i := range r {
		r[i] = ZMM()
	}
	p := GP64()
	MOVQ(from, p)
	for q := range 4 {
		VMOVUPS(Mem{Base: p}, r[4*q])
		VMOVUPS(Mem{Base: p, Index: sld, Scale: 1}, r[4*q+1])
		VMOVUPS(Mem{Base: p, Index: sld, Scale: 2}, r[4*q+2])
		VMOVUPS(Mem{Base: p, Index: ld3, Scale: 1}, r[4*q+3])
		LEAQ(Mem{Base: p, Index: sld, Scale: 4}, p)
	}
	var u [16]VecVirtual
	for q := range 4 {
		var t [4]VecVirtual
		for i := range 2 {
			t[2*i], t[2*i+1] = ZMM(), ZMM()
			VUNPCKLPS(r[4*q+2*i+1], r[4*q+2*i], t[2*i])
			VUNPCKHPS(r[4*q+2*i+1], r[4*q+2*i], t[2*i+1])
		}
		for i := range 2 {
			u[4*q+2*i], u[4*q+2*i+1] = ZMM(), ZMM()
			VUNPCKLPD(t[i+2], t[i], u[4*q+2*i])
			VUNPCKHPD(t[i+2], t[i], u[4*q+2*i+1])
		}
	}
	for c := range 4 {
		for h, imm := range []uint64{0x88, 0xdd} {
			v, w, z := ZMM(), ZMM(), ZMM()
			VSHUFF32X4(Imm(imm), u[4+c], u[c], v)
			VSHUFF32X4(Imm(imm), u[12+c], u[8+c], w)
			VSHUFF32X4(Imm(0x88), w, v, z)
			VMOVUPS(z, Mem{Base: to, Disp: 128 * (4*h + c)})
			VSHUFF32X4(Imm(0xdd), w, v, z)
			VMOVUPS(z, Mem{Base: to, Disp: 128 * (8 + 4*h + c)})
		}
	}
	ADDQ(Imm(64), from)
	ADDQ(U32(128*16), to)
	SUBQ(Imm(16), cols)
	JNZ(LabelRef("block"))

	SHLQ(U8(4), sld) // 16 rows on
	ADDQ(sld, src)
	SHRQ(U8(4), sld)
	panel := GP64() // after the second half the next panel
	MOVQ(argAt("pcols"), panel)
	SHLQ(U8(7), panel)
	XORQ(Imm(64), half)
	JNZ(LabelRef("same"))
	ADDQ(panel, dst)
	Label("same")
	SUBQ(Imm(16), rows)
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}
