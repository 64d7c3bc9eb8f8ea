package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/internal/impl"
)

// TestAttentionParts: gradients in parts, of keys and of queries, have the bits of the full ones, also by tiles.
func TestAttentionParts(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, c := range []struct {
		t, e, group, window, docs int
		drop                      float64
	}{{130, 40, 2, 0, 0, 0}, {600, 8, 1, 90, 0, 0.2}, {580, 5, 1, 0, 5, 0}} {
		a := Attention{T: c.t, E: c.e, Group: c.group, LSE: c.t, Scale: 0.3}
		a.Mask = AttentionMask{Lo: make([]int32, c.t), Hi: make([]int32, c.t)}
		var docs []int32
		if c.docs > 0 { // in two runs each, so that scores are hidden one by one
			docs = make([]int32, c.t)
			for i := range docs {
				docs[i] = int32(i / 60 % c.docs)
			}
		}
		a.Mask.Set(true, c.window, docs)
		if c.drop > 0 {
			a.Drop = AttentionDropout{Dropout: NewDropout(c.drop, 5, 6), First: 77, Row: uint64(c.group * c.t), Head: uint64(c.t)}
		}
		rows := func(cols int) (wide, narrow AttentionRows) {
			x := attnRandom(r, c.t*cols, 1)
			half := make([]uint16, len(x))
			f32ToBF16Generic(half, x)
			return AttentionRows{F32: x, Stride: cols}, AttentionRows{BF16: half, Stride: cols}
		}
		type operands struct{ q, do, k, v AttentionRows }
		var of [2]operands // float32 and bfloat16
		of[0].q, of[1].q = rows(c.group * c.e)
		of[0].do, of[1].do = rows(c.group * c.e)
		of[0].k, of[1].k = rows(c.e)
		of[0].v, of[1].v = rows(c.e)
		impl.Each(t, func(t *testing.T) {
			for i, x := range of {
				for _, tiled := range []bool{false, true} {
					if tiled && (i == 0 || testing.Short() && c.t > attnKeys) {
						continue
					}
					zeros := func(cols int) AttentionRows { return AttentionRows{F32: make([]float32, c.t*cols), Stride: cols} }
					o, lse := zeros(c.group*c.e), make([]float32, c.group*c.t)
					a.BF16 = false
					a.Forward(make([]float32, a.ForwardScratch()), o, lse, x.q, x.k, x.v, 0, c.t)
					run := func(parts []AttentionPart) (all []float32) {
						dq, dk, dv := zeros(c.group*c.e), zeros(c.e), zeros(c.e)
						for _, p := range parts {
							if tiled {
								_, n := a.tiledBackwardScratch(nil)
								a.backwardTiles(attnOps(impl.Current()), make([]float32, n), p, dq, dk, dv, x.do, o, lse, x.q, x.k, x.v)
								continue
							}
							a.Backward(make([]float32, a.BackwardScratch()), p, dq, dk, dv, x.do, o, lse, x.q, x.k, x.v)
						}
						return slices.Concat(dq.F32, dk.F32, dv.F32)
					}
					var parts []AttentionPart
					for lo := 0; lo < c.t; lo += 3 * attnQueries {
						parts = append(parts, AttentionPart{K0: lo, K1: min(c.t, lo+3*attnQueries)})
					}
					for lo := 0; lo < c.t; lo += attnQueries {
						parts = append(parts, AttentionPart{Q0: lo, Q1: min(c.t, lo+attnQueries)})
					}
					whole := run([]AttentionPart{{0, c.t, 0, c.t}})
					if got := run(parts); !slices.Equal(got, whole) {
						t.Errorf("%+v, bfloat16 %t, tiles %t: bits differ", c, i == 1, tiled)
					}
				}
			}
		})
	}
}
