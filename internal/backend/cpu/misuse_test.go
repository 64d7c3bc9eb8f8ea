package cpu

import (
	"fmt"
	"strings"
	"testing"

	"trireme/tensor"
)

// TestMisusePanics checks that misuse panics with the operation's name before anything is written.
func TestMisusePanics(t *testing.T) {
	b := open(t, 2)
	x, narrow, w := random(b, 1, tensor.F32, 1, 4, 6), random(b, 2, tensor.F32, 1, 4, 5), random(b, 3, tensor.F32, 1, 6)
	flat := x.Flat(0, 24)
	rstd, loss, acc := b.New(0, tensor.F32, 4), reals(b, 0), b.New(0, tensor.I64, tensor.ExactWords)
	table := random(b, 4, tensor.F32, 1, 4, 3)
	for op, f := range map[string]func(){
		"add":                           func() { b.Add(x, x, narrow) },
		"swiglu backward":               func() { b.SwiGLUBackward(x, x, narrow, x, x) },
		"rope: heads":                   func() { b.Rope(x, x, table, table, ints(b, 0, 1, 2, 3), 4, false) },
		"rope: table":                   func() { b.Rope(x, x, w, w, ints(b, 0, 0, 0, 0), 6, false) },
		"rope: position":                func() { b.Rope(x, x, table, table, ints(b, 0, 1, 4, 0), 6, false) },
		"rope: indices":                 func() { b.Rope(x, x, table, table, ints(b, 0), 6, false) },
		"attention: sequence":           func() { attend(b, x, ints(b, 0, 3, 5), 4, 0) },
		"attention: sequence 0":         func() { attend(b, x, ints(b, 0, 3, 4), 2, 0) },
		"attention: sequence 0 of 2":    func() { attend(b, x, ints(b, 0, 1, 4), 4, 2) },
		"attention: sequence 0 of 1":    func() { attend(b, x, ints(b, 0, 3), 4, 3) },
		"attention: the first sequence": func() { attend(b, x, ints(b, 1, 4), 4, 0) },
		"rms norm":                      func() { b.RMSNorm(x, rstd, nil, x, x, w, 1e-5) },
		"recompute rms norm":            func() { b.RecomputeRMSNorm(x, x, w, w) },
		"layer norm":                    func() { b.LayerNorm(x, rstd, rstd, nil, x, nil, rstd, w, 1e-5) },
		"gather rows: id":               func() { b.GatherRows(x, random(b, 1, tensor.F32, 1, 9, 6), ints(b, 1, 2, 9, 0)) },
		"scatter rows":                  func() { b.ScatterRows(x, ints(b, 2, 1)) },
		"scatter add":                   func() { b.ScatterAdd(x, x, ints(b, 0, -1, 0, 0), tensor.NoPadding, true) },
		"cross entropy":                 func() { b.CrossEntropy(loss, x, ints(b, 0, 1, 6, 2), true) },
		"count classes: counts":         func() { b.CountClasses(reals(b, 0), x, ints(b, 0, 1, 2, 3)) },
		"count classes: label":          func() { b.CountClasses(reals(b, make([]float64, 18)...), x, ints(b, 0, 1, 6, 2)) },
		"tanh":                          func() { b.Tanh(x, narrow) },
		"head rms norm: heads of 5":     func() { b.HeadRMSNorm(x, rstd, x, narrow.Flat(0, 5), 5, 1e-5) },
		"head rms norm: float32[6]":     func() { b.HeadRMSNorm(x, b.New(0, tensor.F32, 4, 2), x, w, 3, 1e-5) },
		"dropout":                       func() { b.Dropout(x, x, tensor.RandKey{}, reals(b, 0), 0.1) },
		"dropout: a probability":        func() { b.Dropout(x, x, tensor.RandKey{}, reals(b, 0), 1) },
		"matmul by quantized weights":   func() { b.MatMulQuantized(x, x, b.New(0, tensor.U8, 6, 6), b.New(0, tensor.F32, 6, 2)) },
		"matmul by quantized weights: float32[4 6] of": func() { b.MatMulQuantized(x, narrow, b.New(0, tensor.U8, 6, 6), b.New(0, tensor.F32, 6, 1)) },
		"gather quantized rows: id": func() {
			b.GatherQuantized(x, b.New(0, tensor.U8, 2, 6), b.New(0, tensor.F32, 2, 1), ints(b, 0, 1, 2, 1))
		},
		"attention of one row": func() {
			b.AttentionDecode(w, w, x, narrow, ints(b, 0), tensor.AttentionParams{Heads: 2, KVHeads: 2, E: 3})
		},
		"attention of one row: position 4": func() {
			b.AttentionDecode(w, w, x, x, ints(b, 4), tensor.AttentionParams{Heads: 2, KVHeads: 2, E: 3})
		},
		"write rows: float32[1 6] from row 4": func() { b.WriteRows(x, x.RowRange(0, 1), ints(b, 4)) },
		"write rows: float32[4 5] from row 0": func() { b.WriteRows(x, narrow, ints(b, 0)) },
		"binary":                              func() { b.Binary(x, x, narrow, tensor.Add) },
		"binary: floats and":                  func() { b.Binary(x, x, ints(b, 1), tensor.Add) },
		"binary: and of":                      func() { b.Binary(x, x, x, tensor.And) },
		"binary: a comparison":                func() { b.Binary(x, x, x, tensor.Lt) },
		"unary":                               func() { b.Unary(ints(b, 1), ints(b, 1), tensor.Exp) },
		"select: the condition":               func() { b.Select(x, x, x, x) },
		"reduce: dimension":                   func() { b.Reduce(w, x, 1, tensor.Add, tensor.F32) },
		"reduce: by mul":                      func() { b.Reduce(w, x, 0, tensor.Mul, tensor.F32) },
		"reduce: floats and":                  func() { b.Reduce(w, x, 0, tensor.Add, tensor.I64) },
		"reduce: float32[0 6] is empty":       func() { b.Reduce(w, x.RowRange(0, 0), 0, tensor.Max, tensor.F32) },
		"swap":                                func() { b.Swap(x.Reshape(1, 4, 6, 1), x.Reshape(1, 4, 6, 1)) },
		"words":                               func() { b.Words(acc, ints(b, 1), tensor.RandKey{}) },
		"exact squares":                       func() { b.ExactSquares(rstd, x, nil) },
		"exact add":                           func() { b.ExactAdd(acc, x) },
		"normal":                              func() { b.Normal(x.Cols(0, 3), tensor.RandKey{}, 0, 1) },
		"copy":                                func() { b.Copy(x.Cols(0, 3), narrow) },
		"exact squares: a group": func() {
			b.ExactSquares(b.New(0, tensor.I64, 2*tensor.ExactWords), x, longs(b, 10, 24))
		},
		"update: groups end": func() {
			b.Update(tensor.SGD{}, flat, nil, flat, longs(b, 3), reals(b, 1, 1, 1), reals(b, 0, 0, 1, 1, 1))
		},
		"update: a group of elements [7,3)": func() {
			b.Update(tensor.SGD{}, flat, nil, flat, longs(b, 7, 3), reals(b, 1, 1, 1, 1, 1, 1).Reshape(2, 3), reals(b, 0, 0, 1, 1, 1))
		},
		"update: tensor.AdamW has 2 states": func() {
			b.Update(tensor.AdamW{}, flat, []*tensor.Tensor{flat}, flat, longs(b, 24), reals(b, 1, 1, 1, 1), reals(b, 0, 0, 1, 1, 1))
		},
		"update: the inputs": func() {
			b.Update(tensor.SGD{}, flat, nil, flat, longs(b, 24), reals(b, 1, 1), reals(b, 0, 0, 1, 1, 1))
		},
	} {
		func() {
			defer func() {
				if e := fmt.Sprint(recover()); !strings.HasPrefix(e, "cpu: "+op) {
					t.Errorf("%s: panic %q", op, e)
				}
			}()
			f()
		}()
	}
}

// attend takes queries, keys and values of six columns. Each sequence has n rows, unless n is 0.
func attend(b *Backend, x, starts *tensor.Tensor, longest, n int) {
	b.Attention(x, b.New(0, tensor.F32, 2, x.Rows()), x, x, x, nil, tensor.AttentionParams{Starts: starts, MaxSeqLen: longest, SeqLen: n, Heads: 2, KVHeads: 2, E: 3})
}

func TestFillStrided(t *testing.T) {
	b := open(t, 2)
	for _, v := range []float64{0, 2.5} {
		x := b.New(0, tensor.F32, 50, 1000)
		b.Fill(x, 1)
		b.Fill(x.Cols(3, 990), v)
		for i, got := range wide(b, x) {
			want := v
			if c := i % 1000; c < 3 || c >= 990 {
				want = 1
			}
			if got != want {
				t.Fatalf("element %d is %v, want %v", i, got, want)
			}
		}
	}
}
