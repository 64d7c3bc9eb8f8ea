package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// exp2C are the coefficients of exp2 in attention_generic.go, from the first power on.
var exp2C = []float32{0x1.62e42ep-01, 0x1.ebfcd2p-03, 0x1.c6929ep-05, 0x1.3cbf84p-07, 0x1.48fd10p-10, 0x1.bf73eap-13}

// lanes is the number of floats of a vector in the current function, 16 with AVX-512 and 8 with AVX2.
// vectors allocates vector registers as a stack, since the row kernels need nearly all.
var lanes, vectors int

func zmm() VecPhysical {
	z := []VecPhysical{
		Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
	}[vectors]
	vectors++
	return z
}

// ymm is zmm for AVX2.
func ymm() Register {
	if vectors >= 16 {
		panic("attention: AVX2 has 16 registers")
	}
	return zmm().AsY()
}

func ymms(n int) []Register {
	v := make([]Register, n)
	for i := range v {
		v[i] = ymm()
	}
	return v
}

func zmms(n int) []VecPhysical {
	v := make([]VecPhysical, n)
	for i := range v {
		v[i] = zmm()
	}
	return v
}

// scope returns a function that frees the registers allocated since.
func scope() func() {
	n := vectors
	return func() { vectors = n }
}

func constant(x float32) VecPhysical {
	r, z := GP32(), zmm()
	MOVL(U32(math.Float32bits(x)), r)
	VPBROADCASTD(r, z)
	return z
}

// exp2Consts are 1 and exp2C in registers.
func exp2Consts() []VecPhysical {
	c := []VecPhysical{constant(1)}
	for _, x := range exp2C {
		c = append(c, constant(x))
	}
	return c
}

// exp2 replaces each of xs by 2^x.
func exp2(xs, c []VecPhysical) {
	exp2Of(xs, c, func(i int, p VecPhysical) { VSCALEFPS(xs[i], p, xs[i]) })
}

// exp2Of computes 2^x of each of xs: a polynomial p of x - floor(x), which the caller's function
// scales by 2^floor(x). The instructions of the vectors alternate.
func exp2Of(xs, c []VecPhysical, scale func(i int, p VecPhysical)) {
	defer scope()()
	n := len(c) - 1
	var f, p []VecPhysical
	for range xs {
		f, p = append(f, zmm()), append(p, zmm())
	}
	for i, x := range xs {
		VREDUCEPS(Imm(1), x, f[i])
		VMOVAPS(c[n], p[i])
	}
	for j := n - 1; j >= 0; j-- {
		for i := range xs {
			VFMADD213PS(c[j], f[i], p[i])
		}
	}
	for i := range xs {
		scale(i, p[i])
	}
}

// fold reduces all lanes of z with op, and leaves the result in every lane.
func fold(z VecPhysical, op func(a, b, c Op)) {
	defer scope()()
	t := zmm()
	for _, imm := range []uint64{0x4e, 0xb1} {
		VSHUFF32X4(Imm(imm), z, z, t)
		op(t, z, z)
	}
	for _, imm := range []uint64{0x4e, 0xb1} {
		VSHUFPS(Imm(imm), z, z, t)
		op(t, z, z)
	}
}
