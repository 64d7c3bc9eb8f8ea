package safetensors

import (
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
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

// converted converts the bits of numbers.
func converted[From, To tensor.Elem](xs []From, from, to tensor.DType) []To {
	out := make([]To, len(xs))
	Convert(tensor.AsBytes(out), to, tensor.AsBytes(xs), from)
	return out
}

func TestHalvesRoundToNearestEven(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		all := make([]uint16, 1<<16)
		for h := range all {
			all[h] = uint16(h)
		}
		halves := converted[uint16, float32](all, tensor.F16, tensor.F32)
		fromB := func(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) }
		fromH := func(h uint16) float64 { return float64(halves[h]) }
		rng := rand.New(rand.NewPCG(1, 2))
		var xs []float32
		check := func(x uint32) { xs = append(xs, math.Float32frombits(x)) }
		for range 300_000 {
			check(rng.Uint32())
			check(0x33000000 + rng.Uint32N(0x15000000)) // the range of float16
		}
		for h := range uint32(1 << 16) { // every half, its neighbors, and ties
			x := math.Float32bits(halves[h])
			for _, d := range []uint32{0, 1, ^uint32(0), 0x1000, 0xfff, 0x1001} {
				check(x + d)
			}
			check(h<<16 | 0x8000)
			check(h<<16 | 0x7fff)
		}
		bs, hs := converted[float32, uint16](xs, tensor.F32, tensor.BF16), converted[float32, uint16](xs, tensor.F32, tensor.F16)
		for i, x := range xs {
			v := float64(x)
			switch {
			case math.IsNaN(v):
				if b, h := fromB(bs[i]), fromH(hs[i]); !math.IsNaN(b) || !math.IsNaN(h) {
					t.Fatalf("NaN %#x became bfloat16 %v, float16 %v", math.Float32bits(x), b, h)
				}
				continue
			case nearest(v, fromB, 0x7f80) != bs[i]:
				t.Fatalf("%v as bfloat16 is %#x, want %#x", v, bs[i], nearest(v, fromB, 0x7f80))
			case nearest(v, fromH, 0x7c00) != hs[i]:
				t.Fatalf("%v as float16 is %#x, want %#x", v, hs[i], nearest(v, fromH, 0x7c00))
			}
		}
		for h, g := range converted[float32, uint16](halves, tensor.F32, tensor.F16) {
			if g != uint16(h) && h&0x7fff <= 0x7c00 {
				t.Fatalf("half %#x came back as %#x", h, g)
			}
		}
		// 16-bit types by way of float32.
		for h, g := range converted[uint16, uint16](all, tensor.F16, tensor.BF16) {
			if want := converted[float32, uint16](halves[h:h+1], tensor.F32, tensor.BF16)[0]; g != want {
				t.Fatalf("half %#x as bfloat16 is %#x, want %#x", h, g, want)
			}
		}
	})
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
