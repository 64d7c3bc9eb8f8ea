package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trireme/internal/impl"
)

// Rounded numbers may fall to either side of a tie.
const halfStep = 0x1p-7

func fromHalves(x []uint16) []float32 {
	f := make([]float32, len(x))
	bf16ToF32Generic(f, x)
	return f
}

// tiledMasksOf returns masks of keys, some hidden from every query.
func tiledMasksOf(r *rand.Rand, keys int) []uint64 {
	m := make([]uint64, keys)
	for i := range m {
		switch r.IntN(4) {
		case 0:
		case 1:
			m[i] = math.MaxUint64
		default:
			m[i] = r.Uint64()
		}
		m[i] &^= 1 << 9 // a query that sees nothing
	}
	return m
}

func TestAttentionTilesLoops(t *testing.T) {
	eachAttnLevel(t, func(t *testing.T, ops attnOps) {
		r := rand.New(rand.NewPCG(41, 42))
		for n := range 60 {
			keys := tileDepth * (1 + r.IntN(4))
			s, dp := attnRandom(r, keys*attnQueries, 20), attnRandom(r, keys*attnQueries, 1)
			seen, kept := tiledMasksOf(r, keys), tiledMasksOf(r, keys)
			if n%2 == 0 {
				kept = seen
			}
			if n%5 == 0 { // a key that only some queries see
				s[3*attnQueries+7] = float32(math.NaN())
				seen[3] &^= 1 << 7
			}
			gap := tileElems * (2 + r.IntN(3))
			panel := keys/tileDepth*tileElems + gap
			var top, sum, corr, wtop, wsum, wcorr [attnQueries]float32
			for q := range top {
				top[q], sum[q] = 20*float32(r.NormFloat64()), r.Float32()
				if r.IntN(2) == 0 {
					top[q], sum[q] = attnNegInf, 0
				}
			}
			wtop, wsum = top, sum
			got, want := make([]uint16, 2*panel), make([]uint16, 2*panel)
			for i := range got {
				got[i], want[i] = 0x4242, 0x4242
			}
			scale := r.Float32()
			attnTileSoftmaxGeneric(want, panel, s, seen, kept, scale, &wtop, &wsum, &wcorr)
			ops.tileSoftmax(got, panel, s, seen, kept, scale, &top, &sum, &corr)
			attnClose(t, "powers", fromHalves(got), fromHalves(want), halfStep)
			attnClose(t, "top", top[:], wtop[:], 0)
			attnClose(t, "sum", sum[:], wsum[:], 1e-6)
			attnClose(t, "corr", corr[:], wcorr[:], 3e-7)

			strip := 2*tileElems + gap
			lse, d := attnRandom(r, attnQueries, 1), attnRandom(r, attnQueries, 1)
			for i := range lse {
				lse[i] += 30
			}
			mem := func() (x [3][]uint16) {
				for i, n := range []int{keys / tileDepth * strip, keys / tileDepth * strip, 2 * panel} {
					x[i] = make([]uint16, n)
					for j := range x[i] {
						x[i][j] = 0x4242
					}
				}
				return x
			}
			g, w := mem(), mem()
			attnTileGradientGeneric(w[0], w[1], strip, w[2], panel, s, dp, seen, kept, scale, lse, d)
			ops.tileGradient(g[0], g[1], strip, g[2], panel, s, dp, seen, kept, scale, lse, d)
			for i, what := range []string{"p", "ds", "pairs"} {
				attnClose(t, what, fromHalves(g[i]), fromHalves(w[i]), halfStep)
			}

			rows := 1 + r.IntN(20)
			x := attnRandom(r, (rows+1)*attnQueries, 1)
			y := attnClone(x)
			attnScaleColumnsGeneric(y, rows, &corr)
			ops.scaleColumns(x, rows, &corr)
			attnClose(t, "columns", x, y, 0)
		}
	})
}

func TestAttentionTilesBits(t *testing.T) {
	eachAttnLevel(t, func(t *testing.T, ops attnOps) {
		r := rand.New(rand.NewPCG(47, 48))
		for range 200 {
			n := 1 + r.IntN(300)
			words, below := make([]uint32, n), r.Uint32()
			for i := range words {
				words[i] = r.Uint32()
				if r.IntN(5) == 0 {
					words[i] = below
				}
			}
			got, want := make([]uint64, 6), make([]uint64, 6)
			for i := range got {
				got[i], want[i] = 99, 99
			}
			attnDropMaskGeneric(want, words, below)
			ops.dropMask(got, words, below)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%d words: bits %d are %#x, want %#x", n, i, got[i], want[i])
				}
			}
			for i, w := range words {
				if kept := want[i/64]>>(i%64)&1 != 0; kept != (w >= below) {
					t.Fatalf("word %d is %d, below %d: %t", i, w, below, kept)
				}
			}
		}
		var x, y [64]uint64
		for i := range x {
			x[i] = r.Uint64()
		}
		y = x
		transposeBits(&y)
		for i := range x {
			for k := range y {
				if x[i]>>k&1 != y[k]>>i&1 {
					t.Fatalf("bit %d of %d is not bit %d of %d", k, i, i, k)
				}
			}
		}
	})
}

// Bits match the mask's ranges.
func TestAttentionMaskBits(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for range 300 {
		n := 1 + r.IntN(200)
		m := AttentionMask{Lo: make([]int32, n), Hi: make([]int32, n)}
		var docs []int32
		if r.IntN(2) == 0 {
			docs = make([]int32, n)
			for i := range docs {
				docs[i] = int32(r.IntN(3))
			}
		}
		causal, window := r.IntN(2) == 0, r.IntN(3)*r.IntN(n+1)
		m.Set(causal, window, docs)
		i, j := r.IntN(n), r.IntN(n)
		rows, keys := 1+r.IntN(min(64, n-i)), 1+r.IntN(100)
		bits := make([]uint64, keys)
		bits[0] = 99
		m.seen(bits, i, rows, j)
		for q := range 64 {
			for k := range keys {
				a, b := i+q, j+k
				want := q < rows && b < n && (!causal || b <= a) && (window == 0 || b > a-window) && (docs == nil || docs[a] == docs[b])
				if got := bits[k]>>q&1 != 0; got != want {
					t.Fatalf("%d positions, causal %t, window %d: position %d sees %d: %t", n, causal, window, a, b, got)
				}
			}
		}
	}
}

// Results by tiles, in Go and in assembly, agree with float32 up to bfloat16 rounding.
func TestAttentionTilesWhole(t *testing.T) {
	levels := []impl.Level{impl.Generic}
	for _, l := range impl.Available() {
		if l >= impl.AVX512BF16 {
			levels = append(levels, l)
		}
	}
	r := rand.New(rand.NewPCG(45, 46))
	for _, c := range []struct {
		t, e, group, window int
		drop                float64
	}{{1, 32, 1, 0, 0}, {33, 40, 2, 0, 0}, {70, 5, 1, 20, 0.2}, {130, 64, 1, 0, 0}} {
		a := Attention{T: c.t, E: c.e, Group: c.group, LSE: c.t, Scale: 0.3}
		a.Mask = AttentionMask{Lo: make([]int32, c.t), Hi: make([]int32, c.t)}
		a.Mask.Set(true, c.window, nil)
		if c.drop > 0 {
			a.Drop = AttentionDropout{Dropout: NewDropout(c.drop, 5, 6), First: 77, Row: uint64(c.group * c.t), Head: uint64(c.t)}
		}
		rows := func(cols int) AttentionRows {
			x := AttentionRows{BF16: make([]uint16, c.t*cols), Stride: cols}
			f32ToBF16Generic(x.BF16, attnRandom(r, c.t*cols, 1))
			return x
		}
		q, do, k, v := rows(c.group*c.e), rows(c.group*c.e), rows(c.e), rows(c.e)
		type result struct{ o, lse, dq, dk, dv []float32 }
		run := func(tiled bool) (out result) {
			f32 := func(cols int) AttentionRows { return AttentionRows{F32: make([]float32, c.t*cols), Stride: cols} }
			o, dq, dk, dv := f32(c.group*c.e), f32(c.group*c.e), f32(c.e), f32(c.e)
			lse := make([]float32, c.group*c.t)
			ops := attnOps(impl.Current())
			if tiled {
				_, n := a.forwardScratch(nil, true)
				a.forward(true, make([]float32, n), o, lse, q, k, v, 0, c.t)
				_, n = a.tiledBackwardScratch(nil)
				a.backwardTiles(ops, make([]float32, n), AttentionPart{0, c.t, 0, c.t}, dq, dk, dv, do, o, lse, q, k, v)
			} else {
				a.Forward(make([]float32, a.ForwardScratch()), o, lse, q, k, v, 0, c.t)
				a.Backward(make([]float32, a.BackwardScratch()), AttentionPart{0, c.t, 0, c.t}, dq, dk, dv, do, o, lse, q, k, v)
			}
			return result{o.F32, lse, dq.F32, dk.F32, dv.F32}
		}
		want := run(false)
		for _, l := range levels {
			restore := impl.Use(l)
			got := run(true)
			restore()
			name := fmt.Sprintf("%v, %+v: ", l, c)
			attnClose(t, name+"o", got.o, want.o, 2e-2)
			attnClose(t, name+"lse", got.lse, want.lse, 3e-6)
			attnClose(t, name+"dq", got.dq, want.dq, 2e-2)
			attnClose(t, name+"dk", got.dk, want.dk, 2e-2)
			attnClose(t, name+"dv", got.dv, want.dv, 2e-2)
		}
	}
}
