package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	block  = 16            // bytes
	width  = 64            // bytes of a register
	group  = 8             // registers of an iteration
	powers = group * width // bytes of a table of powers
	xor3   = operand.U8(0x96)
	swap64 = operand.U8(0x4e)
	low    = operand.U8(0x00) // of VPCLMULQDQ: which halves it multiplies
	high   = operand.U8(0x11)
)

type generator struct {
	*build.Context
	swap, lanes, four, poly operand.Mem
}

func newGenerator(c *build.Context) *generator {
	g := &generator{Context: c}
	constant := func(name string, words ...uint64) operand.Mem {
		m := g.StaticGlobal(name)
		g.DataAttributes(attr.RODATA | attr.NOPTR)
		for _, w := range words {
			g.AppendDatum(operand.U64(w))
		}
		return m
	}
	// Reverses the bytes of each block.
	const lo, hi = 0x08090a0b0c0d0e0f, 0x0001020304050607
	g.swap = constant("gcmSwap", lo, hi, lo, hi, lo, hi, lo, hi)
	g.lanes = constant("gcmLanes", 0, 0, 1, 0, 2, 0, 3, 0)
	g.four = constant("gcmFour", 4, 0, 4, 0, 4, 0, 4, 0)
	// x^128 + x^7 + x^2 + x + 1 in reflected order, its middle word.
	g.poly = constant("gcmPoly", 0xc200000000000000, 0)
	return g
}

func (g *generator) function(name, signature, doc string) {
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr(signature)
	g.Doc(name + " " + doc)
	g.Pragma("noescape")
}

func (g *generator) end() {
	g.VZEROUPPER()
	g.RET()
}

func (g *generator) pointer(name string) reg.Register { return g.Load(g.Param(name), g.GP64()) }

func (g *generator) load(m operand.Op) reg.VecVirtual {
	z := g.ZMM()
	g.VMOVDQU64(m, z)
	return z
}

func at(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

// lesser returns the lesser of n and limit.
func (g *generator) lesser(n reg.Register, limit uint32) reg.Register {
	m := g.GP64()
	g.MOVL(operand.U32(limit), m.As32())
	g.CMPQ(n, m)
	g.CMOVQLT(n, m)
	return m
}

// mask returns a mask of n low bits, n up to 64.
func (g *generator) mask(n reg.Register) reg.Register {
	ones, k := g.GP64(), g.K()
	g.XORL(ones.As32(), ones.As32())
	g.NOTQ(ones)
	g.BZHIQ(n, ones, ones)
	g.KMOVQ(ones, k)
	return k
}

// expandKey is the key expansion of FIPS 197, section 5.2.
func (g *generator) expandKey() {
	g.function("expandKey", "func(keys *[11][16]byte, key *[16]byte)", "computes the round keys of AES-128.")
	keys := g.pointer("keys")
	key, t, s := g.XMM(), g.XMM(), g.XMM()
	g.VMOVDQU(at(g.pointer("key"), 0), key)
	g.VMOVDQU(key, at(keys, 0))
	for i, rcon := range []operand.U8{0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36} {
		g.VAESKEYGENASSIST(rcon, key, t)
		g.VPSHUFD(operand.U8(0xff), t, t)
		for range 3 {
			g.VPSLLDQ(operand.U8(4), key, s)
			g.VPXOR(s, key, key)
		}
		g.VPXOR(t, key, key)
		g.VMOVDQU(key, at(keys, (i+1)*block))
	}
	g.end()
}

// hasher has the registers of GHASH. Blocks have their bytes reversed, so that a block is a polynomial in
// reflected order. The powers of the key are multiplied by 1/x, which shifts the product of two such polynomials
// to its position in 256 bits.
type hasher struct {
	g                *generator
	swap, y          reg.VecVirtual // y: the hash so far, in the lowest lane
	lo, mid, hi, two reg.VecVirtual
}

func (g *generator) hasher() *hasher {
	h := &hasher{g: g, swap: g.load(g.swap), y: g.ZMM(), lo: g.ZMM(), mid: g.ZMM(), hi: g.ZMM(), two: g.ZMM()}
	p := g.pointer("y")
	g.VMOVDQU64(at(p, 0), h.y.AsX())
	g.VPSHUFB(h.swap.AsX(), h.y.AsX(), h.y.AsX())
	return h
}

// clear starts a sum of products.
func (h *hasher) clear() {
	for _, z := range []reg.VecVirtual{h.lo, h.mid, h.hi} {
		h.g.VPXORQ(z, z, z)
	}
}

// add adds the products of four blocks, whose bytes it reverses, and of powers of the key.
func (h *hasher) add(d reg.VecVirtual, power operand.Mem, first bool) {
	g := h.g
	g.VPSHUFB(h.swap, d, d)
	if first {
		g.VPXORQ(h.y, d, d)
	}
	p, t := h.two, g.ZMM()
	g.VMOVDQU64(power, p)
	g.VPCLMULQDQ(low, p, d, t)
	g.VPXORQ(t, h.lo, h.lo)
	g.VPCLMULQDQ(high, p, d, t)
	g.VPXORQ(t, h.hi, h.hi)
	g.VPCLMULQDQ(operand.U8(0x01), p, d, t)
	g.VPCLMULQDQ(operand.U8(0x10), p, d, d)
	g.VPTERNLOGQ(xor3, t, d, h.mid)
}

// reduce sets y to the sum. A product of 256 bits c3 c2 c1 c0 is reduced by adding multiples of the polynomial
// that clear c0, then c1.
func (h *hasher) reduce() {
	g, t := h.g, h.two
	g.VPSLLDQ(operand.U8(8), h.mid, t)
	g.VPXORQ(t, h.lo, h.lo)
	g.VPSRLDQ(operand.U8(8), h.mid, t)
	g.VPXORQ(t, h.hi, h.hi)
	for _, z := range []reg.VecVirtual{h.lo, h.hi} {
		g.VEXTRACTI64X4(operand.U8(1), z, t.AsY())
		g.VPXORQ(t.AsY(), z.AsY(), z.AsY())
		g.VEXTRACTI64X2(operand.U8(1), z.AsY(), t.AsX())
		g.VPXORQ(t.AsX(), z.AsX(), z.AsX())
	}
	lo, poly := h.lo.AsX(), h.mid.AsX()
	g.VMOVDQU64(g.poly, poly)
	for range 2 {
		g.VPCLMULQDQ(low, poly, lo, t.AsX())
		g.VPSHUFD(swap64, lo, lo)
		g.VPXORQ(t.AsX(), lo, lo)
	}
	g.VPXORQ(lo, h.hi.AsX(), h.y.AsX())
}

func (h *hasher) store() {
	h.g.VPSHUFB(h.swap.AsX(), h.y.AsX(), h.y.AsX())
	h.g.VMOVDQU64(h.y.AsX(), at(h.g.pointer("y"), 0))
}

func (g *generator) hash() {
	g.function("hash", "func(y *[16]byte, t *[35][16]byte, p *byte, blocks int)", "adds blocks to the hash y.")
	h := g.hasher()
	t, p, n := g.pointer("t"), g.pointer("p"), g.pointer("blocks")
	g.SUBQ(operand.U8(powers/block), n)
	g.JLT(operand.LabelRef("rest"))
	g.Label("full")
	h.clear()
	for i := range group {
		h.add(g.load(at(p, i*width)), at(t, i*width), i == 0)
	}
	h.reduce()
	g.ADDQ(operand.U32(powers), p)
	g.SUBQ(operand.U8(powers/block), n)
	g.JGE(operand.LabelRef("full"))

	g.Label("rest") // n blocks and the lowest n powers
	g.ADDQ(operand.U8(powers/block), n)
	g.JEQ(operand.LabelRef("done"))
	g.ADDQ(operand.U32(powers), t)
	size := g.GP64()
	g.MOVQ(n, size)
	g.SHLQ(operand.U8(4), size)
	g.SUBQ(size, t)
	h.clear()
	g.Label("four")
	words := g.lesser(n, width/block)
	g.ADDQ(words, words)
	d := g.ZMM()
	g.VMOVDQU64_Z(at(p, 0), g.mask(words), d)
	h.add(d, at(t, 0), true)
	g.VPXORQ(h.y, h.y, h.y)
	g.ADDQ(operand.U8(width), p)
	g.ADDQ(operand.U8(width), t)
	g.SUBQ(operand.U8(width/block), n)
	g.JGT(operand.LabelRef("four"))
	h.reduce()
	g.Label("done")
	h.store()
	g.end()
}

// stream has the registers of AES in counter mode. Counters have their bytes reversed, so that VPADDD adds.
type stream struct {
	g         *generator
	keys      [11]reg.VecVirtual
	next, add reg.VecVirtual
	swap      reg.VecVirtual
}

func (g *generator) stream(swap reg.VecVirtual) *stream {
	s := &stream{g: g, next: g.ZMM(), swap: swap}
	keys := g.pointer("keys")
	for i := range s.keys {
		s.keys[i] = g.ZMM()
		g.VBROADCASTI32X4(at(keys, i*block), s.keys[i])
	}
	g.VBROADCASTI32X4(at(g.pointer("counter"), 0), s.next)
	g.VPSHUFB(swap, s.next, s.next)
	g.VPADDD(g.lanes, s.next, s.next)
	s.add = g.load(g.four)
	return s
}

// blocks encrypts the next counters, four in a register.
func (s *stream) blocks(n int) []reg.VecVirtual {
	g := s.g
	b := make([]reg.VecVirtual, n)
	for i := range b {
		b[i] = g.ZMM()
		g.VPSHUFB(s.swap, s.next, b[i])
		g.VPADDD(s.add, s.next, s.next)
		g.VPXORQ(s.keys[0], b[i], b[i])
	}
	for _, k := range s.keys[1:10] {
		for _, z := range b {
			g.VAESENC(k, z, z)
		}
	}
	for _, z := range b {
		g.VAESENCLAST(s.keys[10], z, z)
	}
	return b
}

func (g *generator) counter() {
	g.function("counter", "func(keys *[11][16]byte, counter *[16]byte, dst, src *byte, n int)",
		"encrypts or decrypts n bytes, n above 0, from a counter on.")
	s := g.stream(g.load(g.swap))
	dst, src, n := g.pointer("dst"), g.pointer("src"), g.pointer("n")
	g.Label("loop")
	k := g.mask(g.lesser(n, width))
	b, d := s.blocks(1)[0], g.ZMM()
	g.VMOVDQU8_Z(at(src, 0), k, d)
	g.VPXORQ(d, b, b)
	g.VMOVDQU8(b, k, at(dst, 0))
	g.ADDQ(operand.U8(width), dst)
	g.ADDQ(operand.U8(width), src)
	g.SUBQ(operand.U8(width), n)
	g.JGT(operand.LabelRef("loop"))
	g.end()
}

// both encrypts and hashes in one pass. Iterations do not depend on each other but by the hash and the counter, so
// the processor overlaps one's hash with the next one's AES.
func (g *generator) both(name string, open bool) {
	doc := "encrypts groups of 32 blocks, groups above 0, from a counter on, and adds the results to the hash y."
	if open {
		doc = "decrypts groups of 32 blocks, groups above 0, from a counter on, and adds them to the hash y."
	}
	g.function(name, "func(y *[16]byte, t *[35][16]byte, keys *[11][16]byte, counter *[16]byte, dst, src *byte, groups int)", doc)
	h := g.hasher()
	s := g.stream(h.swap)
	t, dst, src, n := g.pointer("t"), g.pointer("dst"), g.pointer("src"), g.pointer("groups")
	g.Label("loop")
	b := s.blocks(group)
	h.clear()
	for i, z := range b {
		if open {
			d := g.load(at(src, i*width))
			g.VPXORQ(d, z, z)
			g.VMOVDQU64(z, at(dst, i*width))
			z = d
		} else {
			g.VPXORQ(at(src, i*width), z, z)
			g.VMOVDQU64(z, at(dst, i*width))
		}
		h.add(z, at(t, i*width), i == 0)
	}
	h.reduce()
	g.ADDQ(operand.U32(powers), dst)
	g.ADDQ(operand.U32(powers), src)
	g.DECQ(n)
	g.JNE(operand.LabelRef("loop"))
	h.store()
	g.end()
}
