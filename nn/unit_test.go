package nn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"trireme/autograd"
	"trireme/nn"
	"trireme/tensor"
)

// journal is an observer that logs its calls, and removes parameters while their unit does not run.
type journal struct {
	lines  []string
	values map[*nn.Param]*tensor.Tensor
}

func (j *journal) note(what string, u *nn.Unit) {
	again := ""
	if u.Segment != nil && u.Segment.Recomputing {
		again = " again"
	}
	j.lines = append(j.lines, fmt.Sprintf("%s %s%s", what, u.Name, again))
}

func (j *journal) come(u *nn.Unit) {
	for _, p := range u.Params {
		p.Value = j.values[p]
	}
}

func (j *journal) leave(u *nn.Unit) {
	for _, p := range u.Params {
		p.Value = nil
	}
}

func (j *journal) BeforeForward(u *nn.Unit, _ *tensor.Tensor)  { j.note("forward", u); j.come(u) }
func (j *journal) AfterForward(u *nn.Unit)                     { j.note("forward done", u); j.leave(u) }
func (j *journal) BeforeBackward(u *nn.Unit, _ *tensor.Tensor) { j.note("backward", u); j.come(u) }
func (j *journal) AfterBackward(u *nn.Unit)                    { j.note("backward done", u); j.leave(u) }

// chain is a model of an embedding, layers and a head.
type chain struct {
	*bed
	units []*nn.Unit
	mlps  []*nn.GatedMLP
	embed *nn.Embedding
	head  *nn.Linear
	runs  map[string]int
	dy    *tensor.Tensor
	ids   *tensor.Tensor
}

const chainDim = 4

func newChain(t *testing.T, layers int) *chain {
	c := &chain{bed: newBed(t), runs: map[string]int{}, embed: nn.NewEmbedding("e", 9, chainDim, nn.Init{}), head: nn.NewLinear("h", chainDim, 9, nn.Init{})}
	unit := func(name string, ps ...*nn.Param) {
		c.give(ps...)
		c.units = append(c.units, &nn.Unit{Name: name, Params: ps})
	}
	unit("embed", c.embed.Weight)
	for i := range layers {
		m := nn.NewGatedMLP(fmt.Sprintf("l%d", i), chainDim, 6, false, nn.Init{})
		c.mlps = append(c.mlps, m)
		unit(fmt.Sprintf("l%d", i), m.Params()...)
	}
	unit("head", c.head.Params()...)
	c.ids, c.dy = c.bed.ids(1, 8, 2), c.random(3, 9)
	return c
}

func (c *chain) observe() *journal {
	j := &journal{values: map[*nn.Param]*tensor.Tensor{}}
	for _, u := range c.units {
		for _, p := range u.Params {
			j.values[p] = p.Value
		}
		j.leave(u)
		u.Observer = j
	}
	return j
}

// pass runs the chain, and its backward if grad, and returns the bits of results and gradients.
func (c *chain) pass(grad bool) (all []float64) {
	tape := autograd.NewTape(c.b, tensor.F64, grad)
	count := func(u *nn.Unit, f func(*autograd.Tape, *autograd.Var) *autograd.Var) func(*autograd.Tape, *autograd.Var) *autograd.Var {
		return func(t *autograd.Tape, x *autograd.Var) *autograd.Var {
			c.runs[u.Name]++
			return f(t, x)
		}
	}
	y := tape.Scope(func() *autograd.Var {
		x := c.units[0].Run(tape, nil, count(c.units[0], func(t *autograd.Tape, _ *autograd.Var) *autograd.Var { return c.embed.Forward(t, c.ids) }))
		for i, m := range c.mlps {
			u := c.units[1+i]
			x = u.Run(tape, x, count(u, func(t *autograd.Tape, x *autograd.Var) *autograd.Var {
				return t.Add(x, u.Part(t, nn.MLP, m.Forward, x))
			}))
		}
		last := c.units[len(c.units)-1]
		return last.Run(tape, x, count(last, c.head.Forward))
	})
	all = slices.Clone(tensor.Host[float64](y.Value))
	if grad {
		dy := c.b.New(tensor.Activations, tensor.F64, 3, 9)
		c.b.Copy(dy, c.dy)
		tape.Seed(y, dy)
		tape.Backward()
		for _, u := range c.units {
			for _, p := range u.Params {
				all = append(all, tensor.Host[float64](c.grads[p])...)
			}
		}
	}
	return all
}

// TestUnits checks the order of notifications, that units need parameters only while running, and
// that recomputation changes no bit.
func TestUnits(t *testing.T) {
	const layers = 4
	plain := newChain(t, layers).pass(true)
	forward := func(what string, names ...string) (lines []string) {
		for _, n := range names {
			lines = append(lines, strings.TrimSpace("forward "+n+what), strings.TrimSpace("forward done "+n+what))
		}
		return lines
	}
	backward := func(what string, names ...string) (lines []string) {
		for _, n := range names {
			lines = append(lines, "backward "+n+what, "backward done "+n+what)
		}
		return lines
	}
	through := forward("", "embed", "l0", "l1", "l2", "l3", "head")
	straight := slices.Concat(through, backward("", "head", "l3", "l2", "l1", "l0", "embed"))
	for name, c := range map[string]struct {
		set  func(units []*nn.Unit)
		want []string
		runs int // of the first layer
	}{
		"everything kept": {func([]*nn.Unit) {}, straight, 1},
		"layers recomputed": {func(units []*nn.Unit) {
			nn.Recompute(units, func(int) nn.RecomputePolicy { return nn.RecomputePolicy{Part: nn.Layer} })
		}, straight, 2},
		"a part recomputed": {func(units []*nn.Unit) {
			nn.Recompute(units, func(int) nn.RecomputePolicy { return nn.RecomputePolicy{Part: nn.MLP} })
		}, straight, 1},
		// The last of two segments is not recomputed. All of the other runs before its backward.
		"segments": {func(units []*nn.Unit) { nn.Segments(units, 2) },
			slices.Concat(through, backward("", "head", "l3", "l2"), forward(" again", "l0", "l1"), backward(" again", "l1", "l0"), backward("", "embed")), 2},
		"segments of recomputed layers": {func(units []*nn.Unit) {
			nn.Segments(units, 2)
			nn.Recompute(units, func(int) nn.RecomputePolicy { return nn.RecomputePolicy{Part: nn.Layer} })
		}, slices.Concat(through, backward("", "head", "l3", "l2"), forward(" again", "l0", "l1"), backward(" again", "l1", "l0"), backward("", "embed")), 3},
	} {
		ch := newChain(t, layers)
		c.set(ch.units)
		j := ch.observe()
		for pass := range 2 { // the second pass starts from the same state
			j.lines, ch.runs = nil, map[string]int{}
			clear(ch.grads)
			if got := ch.pass(true); !slices.Equal(got, plain) {
				t.Errorf("%s, pass %d: bits differ", name, pass)
			}
			if !slices.Equal(j.lines, c.want) {
				t.Errorf("%s, pass %d:\n%s\nwant\n%s", name, pass, strings.Join(j.lines, "\n"), strings.Join(c.want, "\n"))
			}
			if ch.runs["l0"] != c.runs || ch.runs["embed"] != 1 || ch.runs["head"] != 1 {
				t.Errorf("%s, pass %d: runs %v, want %d of l0", name, pass, ch.runs, c.runs)
			}
		}
		j.lines = nil
		if got := ch.pass(false); !slices.Equal(got, plain[:len(got)]) || !slices.Equal(j.lines, through) {
			t.Errorf("%s, without a gradient: %v", name, j.lines)
		}
	}
}

// TestSegments checks the segments' lengths, and that the last is not recomputed.
func TestSegments(t *testing.T) {
	c := newChain(t, 7)
	for n, want := range map[int]string{0: ".......", 1: ".......", 2: "aaa....", 3: "aabb...", 7: "abcdef.", 9: "abcdef."} {
		nn.Segments(c.units, n)
		var got strings.Builder
		var segments []*nn.Segment
		for _, u := range nn.Layers(c.units) {
			if u.Segment == nil {
				got.WriteByte('.')
				continue
			}
			if !slices.Contains(segments, u.Segment) {
				segments = append(segments, u.Segment)
				if u.Segment.First != u {
					t.Errorf("%d: %s starts a segment whose First is %s", n, u.Name, u.Segment.First.Name)
				}
			}
			got.WriteByte(byte('a' + slices.Index(segments, u.Segment)))
		}
		if got.String() != want || c.units[0].Segment != nil || c.units[len(c.units)-1].Segment != nil {
			t.Errorf("%d segments: %s, want %s", n, got.String(), want)
		}
	}
	if got := nn.Layers(c.units[:2]); got != nil {
		t.Errorf("layers %v of an embedding and a head", got)
	}
}
