package nn

import (
	"hash/fnv"
	"math"

	"trireme/autograd"
	"trireme/tensor"
)

// Param is a tensor that training changes. Its value is where Var.Value says, while it is
// gathered.
type Param struct {
	autograd.Var
	Name   string       // as in Hugging Face files, for example model.layers.0.mlp.up_proj.weight
	Shape  tensor.Shape // of the whole parameter
	Local  tensor.Box   // the part of it that this rank computes with, Value; the whole where nobody divides it
	Init   Init
	Hidden bool // a matrix from one hidden state to another: no embedding, no head
	Frozen bool // no gradient, no optimizer state
	// Aliases are further names of the same tensor in Hugging Face files: one that a file has is read
	// in preference to Name, and exports write all.
	Aliases []string
	// Duplicates are names under which files may hold the tensor once more, as those of a tied head. They
	// are not read, and must be equal.
	Duplicates []string
	// FusedAfter is the parameter with which this one is multiplied as one, if it follows it in memory; nil
	// for none.
	FusedAfter *Param
}

// NewParam describes a parameter; it has no memory yet.
func NewParam(name string, init Init, shape ...int) *Param {
	return &Param{Name: name, Shape: shape, Local: tensor.Whole(shape), Init: init}
}

// Init is a distribution of first values.
type Init struct {
	Kind InitKind
	Std  float64 // of Normal
	Zero [2]int  // elements from the first to before the second are 0, whatever Kind says
}

// InitKind is the kind of a distribution.
type InitKind uint8

// The kinds.
const (
	Zeros InitKind = iota
	Ones
	Normal
)

// Fill writes elements first, first+1, ... of the parameter's first values to dst. They
// depend on seed and the parameter's name only, so ranks can make their parts alone.
func (p *Param) Fill(b tensor.Backend, dst *tensor.Tensor, seed uint64, first int) {
	switch p.Init.Kind {
	case Zeros:
		b.Fill(dst, 0)
	case Ones:
		b.Fill(dst, 1)
	case Normal:
		b.Normal(dst, tensor.RandKey{Seed: seed, Stream: stream(p.Name)}, int64(first), p.Init.Std)
	}
	if lo, hi := max(p.Init.Zero[0]-first, 0), min(p.Init.Zero[1]-first, dst.Elems()); lo < hi {
		b.Fill(dst.Flat(lo, hi), 0)
	}
}

// stream numbers the random numbers of what has a name.
func stream(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Decays says whether weight decay applies: not to biases and gains.
func (p *Param) Decays() bool { return len(p.Shape) >= 2 }

// vars are the autograd values of params.
func vars(ps []*Param) []*autograd.Var {
	vs := make([]*autograd.Var, len(ps))
	for i, p := range ps {
		vs[i] = &p.Var
	}
	return vs
}

// ScaledStd is std / sqrt(2*layers), with which GPT-2 begins projections into the residual.
func ScaledStd(std float64, layers int) float64 { return std / math.Sqrt(2*float64(layers)) }
