// Command attention generates the inner loops of attention for amd64.
package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	productAVX512()
	productAVX2()
	softmaxAVX512()
	gradientAVX512()
	finishAVX512()
	scaleAVX512()
	transposeAVX512()
	dotAVX512()
	tileSoftmaxAVX512()
	tileGradientAVX512()
	scaleColumnsAVX512()
	dropMaskAVX512()
	softmaxAVX2()
	gradientAVX2()
	scaleAVX2()
	dotAVX2()
	dataAVX2()
	Generate()
}

// begin starts a function whose arguments point to memory that does not move.
func begin(name, signature, doc string) {
	TEXT(name, attr.NOSPLIT, signature)
	Pragma("noescape")
	Doc(doc)
}

// argAt returns the memory operand of an argument.
func argAt(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func arg(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// stride loads an argument that counts elements, in bytes.
func stride(name string) GPVirtual {
	r := arg(name)
	SHLQ(U8(2), r)
	return r
}

// strided addresses rows at a constant stride, three rows per register.
type strided struct {
	base []GPVirtual
	ld   GPVirtual
}

func newStrided(ld GPVirtual, rows int) strided {
	s := strided{ld: ld}
	for range (rows + 2) / 3 {
		s.base = append(s.base, GP64())
	}
	return s
}

// set points the first row at p.
func (s strided) set(p GPVirtual) {
	MOVQ(p, s.base[0])
	for i := 1; i < len(s.base); i++ {
		LEAQ(Mem{Base: s.base[i-1], Index: s.ld, Scale: 2}, s.base[i])
		ADDQ(s.ld, s.base[i])
	}
}

func (s strided) row(r int) Mem {
	m := Mem{Base: s.base[r/3]}
	if r%3 > 0 {
		m.Index, m.Scale = s.ld, uint8(r%3)
	}
	return m
}

func (s strided) advance(by Op) {
	for _, b := range s.base {
		ADDQ(by, b)
	}
}
