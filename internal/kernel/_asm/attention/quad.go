package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// quad is the number of rows processed together, to hide latency and to share loops and sums over
// lanes.
const quad = 4

// quadRows are four rows of one or two matrices of the same stride ld, and the visible columns, in
// bytes and in full vectors.
type quadRows struct {
	matrices []string
	at       []GPVirtual // the position in each matrix, relative to the rows of the first
	to       GPVirtual
	p        [quad]GPVirtual // rows of the first matrix
}

// newQuadRows starts at the first rows.
func newQuadRows(matrices ...string) quadRows {
	q := quadRows{matrices: matrices, to: GP64()}
	for range matrices {
		q.at = append(q.at, GP64())
	}
	ld := stride("ld")
	q.p[0] = arg(matrices[0])
	for r := 1; r < quad; r++ {
		q.p[r] = GP64()
		LEAQ(Mem{Base: q.p[r-1], Index: ld, Scale: 1}, q.p[r])
	}
	return q
}

// goTo sets the position to an offset in bytes.
func (q quadRows) goTo(at Op) {
	MOVQ(at, q.at[0])
	for m := 1; m < len(q.at); m++ {
		MOVQ(argAt(q.matrices[m]), q.at[m])
		SUBQ(argAt(q.matrices[0]), q.at[m])
		ADDQ(q.at[0], q.at[m])
	}
}

func (q quadRows) vector(matrix, r int) Mem {
	return Mem{Base: q.p[r], Index: q.at[matrix], Scale: 1}
}

func (q quadRows) advance() {
	for _, at := range q.at {
		ADDQ(Imm(uint64(4*lanes)), at)
	}
}

// next advances by four rows.
func (q quadRows) next() {
	ld := stride("ld")
	for _, r := range q.p {
		LEAQ(Mem{Base: r, Index: ld, Scale: quad}, r)
	}
}

// fill sets [from,end) of row r, or of all rows if r < 0, to values.
func (q quadRows) fill(label string, r int, from, end GPVirtual, values []Register) {
	CMPQ(from, end)
	JGE(LabelRef(label + "done"))
	q.goTo(from)
	Label(label)
	for m := range q.at {
		for i := range quad {
			if r < 0 || i == r {
				VMOVUPS(values[m], q.vector(m, i))
			}
		}
	}
	q.advance()
	CMPQ(q.at[0], end)
	JL(LabelRef(label))
	Label(label + "done")
}

// prepare computes the columns visible to rows row..row+3 and jumps to empty if there are none. It
// clears the columns of [c0,c1) visible to no row, sets those visible to some other row to hidden,
// and moves to the first visible column.
func (q quadRows) prepare(row GPVirtual, zero Register, hidden []Register, empty string) {
	lo, hi, f, t := GP64(), GP64(), GP64(), GP64()
	from := GP64()
	get := func(r int) {
		p := arg("lo")
		MOVLQSX(Mem{Base: p, Index: row, Scale: 4, Disp: 4 * r}, lo)
		p = arg("hi")
		MOVLQSX(Mem{Base: p, Index: row, Scale: 4, Disp: 4 * r}, hi)
		MOVQ(lo, f)
		ANDQ(I8(-lanes), f)
		LEAQ(Mem{Base: hi, Disp: lanes - 1}, t)
		ANDQ(I8(-lanes), t)
		SHLQ(U8(2), f)
		SHLQ(U8(2), t)
	}
	MOVQ(U32(1<<30), from)
	XORQ(q.to, q.to)
	for r := range quad {
		get(r)
		CMPQ(lo, hi)
		CMOVQGE(from, f)
		CMOVQGE(q.to, t)
		CMPQ(f, from)
		CMOVQLT(f, from)
		CMPQ(t, q.to)
		CMOVQGT(t, q.to)
	}
	CMPQ(from, q.to)
	JGE(LabelRef(empty))

	zeros := make([]Register, len(q.at))
	for i := range zeros {
		zeros[i] = zero
	}
	q.fill("before", -1, stride("c0"), from, zeros)
	q.fill("after", -1, q.to, stride("c1"), zeros)

	for r := range quad {
		name := fmt.Sprintf("row%d", r)
		get(r)
		CMPQ(lo, hi)
		CMOVQGE(q.to, f)
		q.fill(name+"before", r, from, f, hidden)
		CMPQ(lo, hi)
		JGE(LabelRef(name + "end"))
		edge := func(label string, pos, at GPVirtual, disp int, first bool) {
			TESTQ(U32(lanes-1), pos)
			JZ(LabelRef(label))
			show := someLanes(pos, first)
			q.goTo(at)
			for m := range q.at {
				mem := q.vector(m, r)
				mem.Disp = disp
				show(mem, hidden[m])
			}
			Label(label)
		}
		edge(name+"first", lo, f, 0, true)
		edge(name+"last", hi, t, -4*lanes, false)
		q.fill(name+"after", r, t, q.to, hidden)
		Label(name + "end")
	}
	q.goTo(from)
}

// someLanes takes a position that is not a multiple of a vector, and clobbers it. The returned function
// sets the lanes before the position (or after it, unless first) to hidden.
func someLanes(pos GPVirtual, first bool) (show func(mem Mem, hidden Register)) {
	n := pos.As32()
	if lanes == 16 {
		ones, k := GP32(), K()
		MOVL(U32(0xffff), ones)
		if first {
			ANDL(Imm(15), n)
			SHLXL(n, ones, ones)
		} else {
			NEGL(n)
			ANDL(Imm(15), n)
			SHRXL(n, ones, ones)
		}
		KMOVW(ones, k)
		return func(mem Mem, hidden Register) {
			defer scope()()
			z := zmm()
			VBLENDMPS(mem, hidden, k, z)
			VMOVUPS(z, mem)
		}
	}
	ANDL(Imm(7), n)
	NEGQ(pos)
	table := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "attnLanes", Static: true}, 32), table)
	if !first {
		ADDQ(Imm(32), table)
	}
	LEAQ(Mem{Base: table, Index: pos, Scale: 4}, table)
	return func(mem Mem, hidden Register) {
		defer scope()()
		k, z := ymm(), ymm()
		VMOVUPS(Mem{Base: table}, k)
		VBLENDVPS(k, mem, hidden, z)
		VMOVUPS(z, mem)
	}
}

// each runs body for every visible vector from the current position on; there is at least one.
func (q quadRows) each(label string, body func()) {
	Label(label)
	body()
	q.advance()
	CMPQ(q.at[0], q.to)
	JL(LabelRef(label))
}
