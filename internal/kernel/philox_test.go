package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// TestPhilox checks the known answers published with the algorithm (Random123, kat_vectors,
// philox4x32 10).
func TestPhilox(t *testing.T) {
	const f = math.MaxUint32
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

func TestNormalPairIsBoxMuller(t *testing.T) {
	for range 200000 {
		u, v := rand.Uint64(), rand.Uint64()
		a, b := normalPair(u, v)
		r := math.Sqrt(-2 * math.Log(float64(u>>11+1)*0x1p-53))
		s, c := math.Sincos(2 * math.Pi * (float64(v) * 0x1p-64))
		if math.Abs(a-r*c) > 1e-14*(1+r) || math.Abs(b-r*s) > 1e-14*(1+r) {
			t.Fatalf("%x %x: %v %v, want %v %v", u, v, a, b, r*c, r*s)
		}
	}
	if a, b := normalPair(math.MaxUint64, 0); a != 0 || b != 0 {
		t.Errorf("radius 0 gives %v %v", a, b)
	}
}

// All versions give the same bits, across the ends of counters too.
func TestNormalHasTheSameBitsInEveryVariant(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for _, first := range []int64{0, 1, 6, 1<<33 - 9, 1<<62 + 5} {
			for _, n := range []int{0, 1, 2, 15, 16, 17, 18, 33, 40000} {
				got, want := make([]float32, n+1), make([]float32, n)
				got[n] = guard
				Normal(got[:n], 0x123456789abcdef0, 1<<63|5, first, 0.02)
				normalGeneric(want, 0x123456789abcdef0, 1<<63|5, uint64(first), 0.02)
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("element %d of %d from %d is %v, want %v", i, n, first, got[i], want[i])
					}
				}
				if got[n] != guard {
					t.Fatalf("%d from %d: wrote past the end", n, first)
				}
			}
		}
	})
}

func BenchmarkNormal(b *testing.B) {
	x := make([]float32, 4096)
	b.SetBytes(int64(len(x) * 4))
	for b.Loop() {
		Normal(x, 1, 2, 0, 1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/elem")
}
