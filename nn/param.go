package nn

import (
	"fmt"
	"hash/fnv"
	"math"

	"trireme/autograd"
	"trireme/tensor"
)

// Param is a trainable parameter. Var.Value is set while it is all-gathered.
type Param struct {
	autograd.Var
	Name   string       // as in Hugging Face files, such as model.layers.0.mlp.up_proj.weight
	Shape  tensor.Shape // of the full parameter
	Local  tensor.Box   // this rank's part, the shape of Value; everything unless placement shards it
	Init   Init
	Hidden bool // a hidden-to-hidden matrix, not an embedding or head
	Frozen bool // no gradient, no optimizer state
	// Quantizable marks a matrix that only operations with 8-bit versions read: Linear, Embedding, and heads.
	Quantizable bool
	// Quantized keeps the matrix in 8 bits (tensor.Quantized), outside flat parameters. Its loader sets Value and
	// Scales.
	Quantized bool
	// Aliases are further names in Hugging Face files. Loading prefers them to Name, saving writes
	// all.
	Aliases []string
	// Duplicates are names of further copies in files, such as a tied head. Loading takes no values
	// from them, but they must be equal to the parameter.
	Duplicates []string
	// FusedAfter is the parameter to fuse with if it precedes this one in memory, or nil.
	FusedAfter *Param
}

// NewParam returns a parameter without memory.
func NewParam(name string, init Init, shape ...int) *Param {
	return &Param{Name: name, Shape: shape, Local: tensor.FullBox(shape), Init: init}
}

// Init is a distribution of initial values.
type Init struct {
	Kind InitKind
	Std  float64 // of Normal
	Zero [2]int  // elements [Zero[0], Zero[1]) are 0 for any Kind
}

// InitKind is a kind of distribution.
type InitKind uint8

const (
	Zeros InitKind = iota
	Ones
	Normal
)

// Fill writes elements first, first+1, ... of the initial values to dst. They depend on seed and
// Name only, so each rank can initialize its shard.
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

// stream is the random stream of a name.
func stream(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Decays reports whether weight decay applies: not to biases and gains.
func (p *Param) Decays() bool { return len(p.Shape) >= 2 }

// operand returns p for an operation. It panics if p has no value.
func (p *Param) operand() *autograd.Var {
	if p.Value == nil {
		panic(fmt.Sprintf("nn: parameter %s has no value here. try: list it in Params of the unit that reads it, or in Shared if an earlier unit owns it", p.Name))
	}
	return &p.Var
}

func vars(ps []*Param) []*autograd.Var {
	vs := make([]*autograd.Var, len(ps))
	for i, p := range ps {
		vs[i] = p.operand()
	}
	return vs
}

// ScaledStd is std / sqrt(2*layers), GPT-2's initialization of residual projections.
func ScaledStd(std float64, layers int) float64 { return std / math.Sqrt(2*float64(layers)) }
