package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/internal/impl"
)

// Every version generates the words of Philox, across a carry of the counter too.
func TestRandomWords(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		for _, k := range []uint64{0, 1, 77, 1<<32 - 3, 1<<32 - 16, 1<<32 - 32, 1 << 32, 5<<40 + 9} {
			for n := 0; n <= 4*dropBlock; n += dropBlock {
				seed, stream := rng.Uint64(), rng.Uint64()
				all, want := make([]uint32, n+2), make([]uint32, n)
				got := all[1 : n+1]
				randomWords(got, seed, stream, k)
				randomWordsGeneric(want, seed, stream, k)
				if !slices.Equal(got, want) {
					t.Fatalf("%d words from counter %#x differ", n, k)
				}
				if all[0] != 0 || all[n+1] != 0 {
					t.Fatalf("%d words: wrote outside", n)
				}
			}
		}
	})
}

func TestDropKernels(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 2))
		for _, below := range []uint32{0, 1, 1 << 31, 3 << 30, math.MaxUint32} {
			for n := range 70 {
				off := rng.IntN(17)
				allP, p := guarded(rng, n, off)
				allD, dp := guarded(rng, n, off)
				_, x := guarded(rng, n, off)
				words := make([]uint32, n)
				for i := range words {
					words[i] = rng.Uint32()
					if rng.IntN(4) == 0 {
						words[i] = below - uint32(rng.IntN(2))
					}
				}
				if n > 0 {
					x[n-1] = float32(math.NaN())
				}
				what := fmt.Sprintf("%d words below %#x", n, below)
				wantP, wantD := slices.Clone(p), slices.Clone(dp)
				dropGradientGeneric(wantP, wantD, words, below, 0.7)
				dropGradient(p, dp, words, below, 0.7)
				sameBits(t, what+": p", p, wantP)
				sameBits(t, what+": dp", dp, wantD)
				dropSelectGeneric(wantP, x, words, below, 1.25)
				dropSelect(p, x, words, below, 1.25)
				sameBits(t, what+": selected", p, wantP)
				dropSelect(x, x, words, below, 1.25)
				sameBits(t, what+": in place", x, wantP)
				checkGuards(t, what, allP, off, n)
				checkGuards(t, what, allD, off, n)
			}
		}
	})
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if g, w := got[i], want[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

// The dropped elements do not depend on how a row is split, and their share is p.
func TestDropoutAnywhere(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		const n = DropoutPiece
		one, whole := make([]float32, n), make([]float32, n)
		for i := range one {
			one[i] = 1
		}
		d := NewDropout(0.3, 11, 12)
		for _, first := range []uint64{0, 5, 1<<34 - 100} {
			d.Apply(whole, one, first)
			part := make([]float32, n)
			for lo := 0; lo < n; {
				hi := min(n, lo+1+(lo*7+3)%90)
				d.Apply(part[lo:hi], one[lo:hi], first+uint64(lo))
				lo = hi
			}
			sameBits(t, "in parts", part, whole)
			kept := 0.0
			for _, v := range whole {
				if v != 0 && v != d.Scale {
					t.Fatalf("1 became %v", v)
				}
				kept += float64(v) / n / float64(d.Scale)
			}
			if math.Abs(kept-0.7) > 4*math.Sqrt(0.3*0.7/n) {
				t.Errorf("%v of the elements are kept, 0.7 should be", kept)
			}
		}
	})
}

func BenchmarkDropout(b *testing.B) {
	x := make([]float32, DropoutPiece)
	impl.Each(b, func(b *testing.B) {
		d := NewDropout(0.1, 1, 2)
		b.SetBytes(int64(4 * len(x)))
		for b.Loop() {
			d.Apply(x, x, 3)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/elem")
	})
}
