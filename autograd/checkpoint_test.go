package autograd

import (
	"math"
	"slices"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// counted counts expensive operations.
type counted struct {
	*naive.Backend
	products, attentions int
}

func (b *counted) MatMul(dst, x, y *tensor.Tensor, op tensor.MatMulOp) {
	b.products++
	b.Backend.MatMul(dst, x, y, op)
}

func (b *counted) Attention(o, lse, q, k, v, docs *tensor.Tensor, p tensor.AttentionParams) {
	b.attentions++
	b.Backend.Attention(o, lse, q, k, v, docs, p)
}

// layered is two Llama-like layers with dropout, on x [6 8].
type layered struct {
	*check
	b      *counted
	x      *Var
	leaves []*Var // wa, wb, wc, wd of each layer
	grads  []*tensor.Tensor
	rope   RopeTable
	row    *tensor.Tensor
	starts *tensor.Tensor
	loss   *tensor.Tensor // gradient of the result
}

func newLayered(t *testing.T) *layered {
	c := newCheck(t)
	l := &layered{check: c, b: &counted{Backend: c.b}}
	add := func(shape ...int) *Var {
		v, g := c.leaf(shape...)
		l.leaves, l.grads = append(l.leaves, v), append(l.grads, g)
		return v
	}
	l.x = add(6, 8)
	for range 2 {
		add(16, 8)
		add(8, 8)
		add(12, 8)
		add(8, 6)
	}
	l.rope = RopeTable{Cos: c.random(6, 2), Sin: c.random(6, 2), Positions: c.counting(6, 6)}
	l.row, l.starts, l.loss = c.numbers(6, 3), c.starts(0, 6), c.random(6, 8)
	return l
}

// layer runs layer i on x.
func (l *layered) layer(t *Tape, i int, x *Var) *Var {
	w := l.leaves[1+4*i:]
	qkv := t.Rope(t.Linear(x, w[:1], nil), 12, 4, l.rope)
	o := t.Attention(qkv, nil, tensor.AttentionParams{Starts: l.starts, MaxSeqLen: 6, Heads: 2, KVHeads: 1, E: 4, Scale: 0.5, Causal: true})
	x = t.Add(x, t.Linear(o, w[1:2], nil))
	y := t.Linear(t.SwiGLU(t.Linear(x, w[2:3], nil)), w[3:4], nil)
	return t.Add(x, t.Dropout(y, tensor.RandKey{Seed: 1, Stream: uint64(i)}, l.row, 0.3))
}

// run runs f and its backward, and returns the bits of all gradients.
func (l *layered) run(offload OffloadStack, f func(t *Tape, x *Var) *Var) []uint64 {
	l.t.Helper()
	l.b.products, l.b.attentions = 0, 0
	live := l.b.Meter().Read().LiveTotal
	tape := NewTape(l.b, tensor.F64, true)
	if offload != nil {
		tape.SetOffload(offload)
	}
	tape.Scope(func() *Var {
		y := f(tape, tape.input(l.x))
		if l.loss != nil {
			d := tape.alloc(6, 8)
			l.b.Copy(d, l.loss)
			y.grad = &gradient{d, 1}
		}
		return nil
	})
	tape.Backward()
	if now := l.b.Meter().Read().LiveTotal; now != live {
		l.t.Errorf("%d bytes in use after backward", now-live)
	}
	var bits []uint64
	for _, g := range l.grads {
		for _, v := range tensor.Host[float64](g) {
			bits = append(bits, math.Float64bits(v))
		}
	}
	return bits
}

// step is layer i as a step of a checkpoint.
func (l *layered) step(i int) func(*Tape, ...*Var) *Var {
	return func(t *Tape, x ...*Var) *Var { return l.layer(t, i, x[0]) }
}

// plain is both layers without recomputation.
func (l *layered) plain(t *Tape, x *Var) *Var { return l.layer(t, 1, l.layer(t, 0, x)) }

// stack is an OffloadStack in memory that checks its order.
type stack struct {
	t      *testing.T
	b      tensor.Backend
	held   []*tensor.Tensor
	pushes int
}

func (s *stack) Push(x *tensor.Tensor) {
	c := s.b.New(tensor.Workspace, x.DType(), x.Shape()...)
	s.b.Copy(c, x)
	s.held, s.pushes = append(s.held, c), s.pushes+1
}

func (s *stack) Top() *tensor.Tensor { return s.held[len(s.held)-1] }

func (s *stack) Pop() {
	s.Top().Release()
	s.held = s.held[:len(s.held)-1]
}

// TestRecomputation checks bits against a pass without recomputation, and that only those products
// and attentions run twice that backward reads: neither a layer's last product nor saved results.
func TestRecomputation(t *testing.T) {
	each := func(keep SavePolicy) func(l *layered, t *Tape, x *Var) *Var {
		return func(l *layered, t *Tape, x *Var) *Var {
			return t.Checkpoint(keep, l.step(1), t.Checkpoint(keep, l.step(0), x))
		}
	}
	for name, v := range map[string]struct {
		products, attentions int // recomputed
		offload              int // pushed inputs
		f                    func(l *layered, t *Tape, x *Var) *Var
	}{
		"each layer":            {6, 2, 2, each(0)},
		"attention saved":       {6, 0, 2, each(SaveAttention)},
		"products saved":        {0, 2, 2, each(SaveMatMul)},
		"both saved":            {0, 0, 2, each(SaveAttention | SaveMatMul)},
		"sequence":              {7, 2, 1, func(l *layered, t *Tape, x *Var) *Var { return l.both(t, x, l.step(0), l.step(1)) }},
		"sequence, each nested": {10, 3, 1, func(l *layered, t *Tape, x *Var) *Var { return l.both(t, x, l.nested(0, 0), l.nested(1, 0)) }},
		"sequence, nested, attention saved": {10, 2, 1, func(l *layered, t *Tape, x *Var) *Var {
			return l.both(t, x, l.nested(0, SaveAttention), l.nested(1, SaveAttention))
		}},
		"first layer": {3, 1, 1, func(l *layered, t *Tape, x *Var) *Var { return l.layer(t, 1, t.Checkpoint(0, l.step(0), x)) }},
		"a part that reads its input twice": {1, 0, 1, func(l *layered, t *Tape, x *Var) *Var {
			return l.plain(t, t.Checkpoint(0, func(t *Tape, xs ...*Var) *Var {
				return t.Add(xs[0], t.Add(xs[0], t.SwiGLU(t.Linear(xs[0], l.leaves[1:2], nil))))
			}, x))
		}},
	} {
		l := newLayered(t)
		plain := l.plain
		if name == "a part that reads its input twice" {
			plain = func(t *Tape, x *Var) *Var {
				return l.plain(t, t.Add(x, t.Add(x, t.SwiGLU(t.Linear(x, l.leaves[1:2], nil)))))
			}
		}
		want := l.run(nil, plain)
		products, attentions := l.b.products, l.b.attentions
		for _, offload := range []*stack{nil, {t: t, b: l.b}} {
			again := newLayered(t)
			var s OffloadStack
			if offload != nil {
				offload.b, s = again.b, offload
			}
			got := again.run(s, func(t *Tape, x *Var) *Var { return v.f(again, t, x) })
			if !slices.Equal(got, want) {
				t.Errorf("%s: bits differ", name)
			}
			if p, a := again.b.products-products, again.b.attentions-attentions; p != v.products || a != v.attentions {
				t.Errorf("%s: recomputed %d products and %d attentions, want %d and %d", name, p, a, v.products, v.attentions)
			}
			if offload != nil && (len(offload.held) > 0 || offload.pushes != v.offload) {
				t.Errorf("%s: pushed %d inputs, %d left", name, offload.pushes, len(offload.held))
			}
		}
	}
}

// both runs two steps in one sequence.
func (l *layered) both(t *Tape, x *Var, f, g func(*Tape, ...*Var) *Var) *Var {
	s := t.CheckpointSequence(0, x)
	y := s.Then(f, x)
	return s.Then(g, y)
}

// nested is a checkpoint inside a checkpoint.
func (l *layered) nested(i int, keep SavePolicy) func(*Tape, ...*Var) *Var {
	return func(t *Tape, x ...*Var) *Var { return t.Checkpoint(keep, l.step(i), x...) }
}

// TestCheckpointWithoutGradient checks that a checkpoint without a gradient recomputes nothing and
// frees its inputs.
func TestCheckpointWithoutGradient(t *testing.T) {
	for _, keep := range []SavePolicy{0, SaveAttention | SaveMatMul} {
		l := newLayered(t)
		l.loss = nil
		s := &stack{t: t, b: l.b}
		l.run(s, func(t *Tape, x *Var) *Var { return t.Checkpoint(keep, l.step(1), t.Checkpoint(keep, l.step(0), x)) })
		if l.b.products != 8 || len(s.held) > 0 {
			t.Errorf("%d products, %d inputs left", l.b.products, len(s.held))
		}
	}
}

// TestSavedResultIsOutput checks that a checkpoint's own result is not saved a second time.
func TestSavedResultIsOutput(t *testing.T) {
	attention := func(l *layered) func(*Tape, ...*Var) *Var {
		return func(t *Tape, x ...*Var) *Var {
			qkv := t.Linear(x[0], l.leaves[1:2], nil)
			return t.Attention(qkv, nil, tensor.AttentionParams{Starts: l.starts, MaxSeqLen: 6, Heads: 2, KVHeads: 1, E: 4, Scale: 0.5})
		}
	}
	kept, again := newLayered(t), newLayered(t)
	want := kept.run(nil, func(t *Tape, x *Var) *Var { return attention(kept)(t, x) })
	got := again.run(nil, func(t *Tape, x *Var) *Var { return t.Checkpoint(SaveAttention|SaveMatMul, attention(again), x) })
	if !slices.Equal(got, want) {
		t.Error("bits differ")
	}
}

// TestFrozenCheckpoint checks that frozen checkpoints pass on no gradient, alone or nested.
func TestFrozenCheckpoint(t *testing.T) {
	for name, v := range map[string]struct {
		products int // recomputed
		f        func(l *layered, t *Tape, x *Var) *Var
	}{
		"alone": {3, func(l *layered, t *Tape, x *Var) *Var { // of the second layer
			return t.Checkpoint(0, l.step(1), t.Checkpoint(0, l.step(0), x))
		}},
		// 10 as with gradients, and one in backward: a deferred step does not know whether it
		// requires gradients
		"nested":              {11, func(l *layered, t *Tape, x *Var) *Var { return l.both(t, x, l.nested(0, 0), l.nested(1, 0)) }},
		"before a nested one": {7, func(l *layered, t *Tape, x *Var) *Var { return l.both(t, x, l.step(0), l.nested(1, 0)) }},
	} {
		kept, again := newLayered(t), newLayered(t)
		for _, l := range []*layered{kept, again} {
			for _, w := range l.leaves[:5] {
				w.SetGradDst(nil)
			}
		}
		want := kept.run(nil, kept.plain)
		got := again.run(nil, func(t *Tape, x *Var) *Var { return v.f(again, t, x) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: bits differ", name)
		}
		if again.b.products != kept.b.products+v.products {
			t.Errorf("%s: %d products, %d without recomputation", name, again.b.products, kept.b.products)
		}
	}
}

// TestSequenceSteps checks that a step must take the last result, and that intermediate results
// must not be read outside.
func TestSequenceSteps(t *testing.T) {
	refused := func(what string, f func(l *layered, t *Tape, x *Var) *Var) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		l := newLayered(t)
		l.run(nil, func(t *Tape, x *Var) *Var { return f(l, t, x) })
	}
	refused("another input", func(l *layered, t *Tape, x *Var) *Var {
		s := t.CheckpointSequence(0, x)
		y := s.Then(l.step(0), x)
		return s.Then(l.step(1), t.Add(x, y))
	})
	refused("read outside", func(l *layered, t *Tape, x *Var) *Var {
		s := t.CheckpointSequence(0, x)
		y := s.Then(l.step(0), x)
		return t.Add(s.Then(l.step(1), y), y)
	})
}
