package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/internal/impl"
)

// Blocks that pass over keys together have the bits of blocks alone, at every level, for more blocks
// than pass together.
func TestAttentionBlocksTogether(t *testing.T) {
	const length, group, e = 33*attnQueries + 5, 3, 16
	r := rand.New(rand.NewPCG(7, 8))
	for _, window := range []int{0, 700} {
		mask := AttentionMask{Lo: make([]int32, length), Hi: make([]int32, length)}
		mask.Set(true, window, nil)
		wide := attnRandom(r, length*e*(group+2), 1)
		narrow := make([]uint16, len(wide))
		f32ToBF16Generic(narrow, wide)
		impl.Each(t, func(t *testing.T) {
			if impl.Current() == impl.Generic {
				return // the same code, in seconds
			}
			for _, x := range []AttentionRows{{F32: wide, Stride: e * (group + 2)}, {BF16: narrow, Stride: e * (group + 2)}} {
				a := Attention{T: length, E: e, Group: group, LSE: length, Scale: 0.25, Mask: mask, BF16: x.BF16 != nil}
				run := func(step int) []float32 {
					o := AttentionRows{F32: make([]float32, length*group*e), Stride: group * e}
					lse, scratch := make([]float32, group*length), make([]float32, a.ForwardScratch())
					for i := 0; i < length; i += step {
						a.Forward(scratch, o, lse, x, x.From(0, group*e), x.From(0, (group+1)*e), i, min(length, i+step))
					}
					return append(o.F32, lse...)
				}
				if !slices.Equal(run(length), run(attnQueries)) {
					t.Errorf("bfloat16 %t, window %d: bits differ", a.BF16, window)
				}
			}
		})
	}
}

// Scratch of a forward pass does not grow with the length; that of a backward pass grows linearly.
func TestAttentionScratch(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for _, bf16 := range []bool{false, true} {
			at := func(length int) (forward, backward int) {
				a := Attention{T: length, E: 128, Group: 4, BF16: bf16}
				return a.ForwardScratch(), a.BackwardScratch()
			}
			forward, backward := at(4096)
			for _, length := range []int{8192, 32768, 1 << 20} {
				f, b := at(length)
				if f != forward || f > 2<<20 {
					t.Errorf("bfloat16 %t: %d floats forward at %d, %d at 4096", bf16, f, length, forward)
				}
				if b > backward*length/4096 {
					t.Errorf("bfloat16 %t: %d floats backward at %d, %d at 4096", bf16, b, length, backward)
				}
			}
		}
	})
}

// Any number of documents that are one run each become ranges; a document in two runs does not.
func TestAttentionManyDocuments(t *testing.T) {
	const length = 6000
	m := AttentionMask{Lo: make([]int32, length), Hi: make([]int32, length)}
	docs := make([]int32, length)
	for i := range docs {
		docs[i] = int32(i / 3 * 7919 % 2003) // 2000 documents in no order
	}
	m.Set(true, 0, docs)
	if m.Docs != nil {
		t.Fatal("2000 documents are no ranges")
	}
	for i := range docs {
		if m.Lo[i] != int32(i/3*3) || m.Hi[i] != int32(i+1) {
			t.Fatalf("position %d sees [%d, %d)", i, m.Lo[i], m.Hi[i])
		}
	}
	docs[length-1] = docs[0]
	if m.Set(true, 0, docs); m.Docs == nil || m.Lo[length-1] != 0 {
		t.Error("a document in two runs became a range")
	}
}
