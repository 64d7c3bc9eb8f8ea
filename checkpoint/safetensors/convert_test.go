package safetensors

import (
	"math"
	"math/rand/v2"
	"testing"

	"trireme/tensor"
)

// nearest returns the 16-bit value nearest to x, ties to even, by search.
func nearest(x float64, value func(uint16) float64, inf uint16) uint16 {
	sign := uint16(0)
	if math.Signbit(x) {
		sign, x = 0x8000, -x
	}
	lo, hi := uint16(0), inf
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; value(mid) <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	a, b := value(lo), value(hi)
	if hi == inf { // round as if the exponent range were unbounded
		b = value(inf-1) + (value(inf-1) - value(inf-2))
	}
	if x-a < b-x || x-a == b-x && lo&1 == 0 {
		return sign | lo
	}
	return sign | hi
}

func TestHalvesRoundToNearestEven(t *testing.T) {
	fromB := func(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) }
	fromH := func(h uint16) float64 { return float64(math.Float32frombits(fromF16(h))) }
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(x uint32) {
		v := float64(math.Float32frombits(x))
		if math.IsNaN(v) {
			if b := fromB(bf16(x)); !math.IsNaN(b) {
				t.Fatalf("NaN %#x became bfloat16 %v", x, b)
			}
			if h := fromH(f16(x)); !math.IsNaN(h) {
				t.Fatalf("NaN %#x became float16 %v", x, h)
			}
			return
		}
		if w, g := nearest(v, fromB, 0x7f80), bf16(x); w != g {
			t.Fatalf("%v (%#x) as bfloat16 is %#x, want %#x", v, x, g, w)
		}
		if w, g := nearest(v, fromH, 0x7c00), f16(x); w != g {
			t.Fatalf("%v (%#x) as float16 is %#x, want %#x", v, x, g, w)
		}
	}
	for range 300_000 {
		check(rng.Uint32())
		check(0x33000000 + rng.Uint32N(0x15000000)) // the range of float16
	}
	for h := range uint32(1 << 16) { // every half, its neighbors, and ties
		x := fromF16(uint16(h))
		for _, d := range []uint32{0, 1, ^uint32(0), 0x1000, 0xfff, 0x1001} {
			check(x + d)
		}
		if g := f16(x); g != uint16(h) && h&0x7fff <= 0x7c00 {
			t.Fatalf("half %#x came back as %#x", h, g)
		}
		check(h<<16 | 0x8000)
		check(h<<16 | 0x7fff)
	}
}

func TestConvertPairs(t *testing.T) {
	// 1.5 and -2 are exact in all three.
	in := map[tensor.DType][]byte{
		tensor.F32:  {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0},
		tensor.BF16: {0xc0, 0x3f, 0, 0xc0},
		tensor.F16:  {0, 0x3e, 0, 0xc0},
	}
	for from, src := range in {
		for to, want := range in {
			got := make([]byte, len(want))
			Convert(got, to, src, from)
			if string(got) != string(want) {
				t.Errorf("%v to %v: %x, want %x", from, to, got, want)
			}
		}
	}
	if Convertible(tensor.F32, tensor.I32) || Convertible(tensor.F64, tensor.F32) || !Convertible(tensor.I64, tensor.I64) {
		t.Error("Convertible is wrong")
	}
}
