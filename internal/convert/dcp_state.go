package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// dcpStep is the kind of a parameter's number of optimizer steps in a DCP directory.
const dcpStep = "step"

// toDCP returns the tensors to write: parameters and, if both moments of Adam are there, those and the number of steps of
// each. Without Options.Under the directory is a state dict of parameters alone, unless torchtitan's layout has the
// optimizer beside them. The state of other optimizers is left out.
func (s *Source) toDCP(o Options) (all []Tensor, notes []string, err error) {
	params, left := s.params(o)
	kinds := [][]Tensor{params}
	first, second := s.ofKind("exp_avg"), s.ofKind("exp_avg_sq")
	if nested := o.Under != "" || o.Names == TorchTitan; nested && len(first) > 0 && len(first) == len(second) {
		kinds, left = append(kinds, first, second), nil
		if rest := len(s.Tensors) - len(params) - 2*len(first); rest > 0 {
			left = append(left, fmt.Sprintf("left out: %d tensors that are neither parameters nor moments", rest))
		}
	}
	for _, tensors := range kinds {
		renamed, err := o.renamed(s, tensors)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range renamed {
			if all = append(all, t); t.Kind == "exp_avg" {
				all = append(all, s.stepsOf(t.Name))
			}
		}
	}
	return all, left, nil
}

func (s *Source) ofKind(kind string) (all []Tensor) {
	for _, t := range s.Tensors {
		if t.Kind == kind {
			all = append(all, t)
		}
	}
	return all
}

// stepsOf is the number of optimizer steps of a parameter, a tensor without dimensions as in PyTorch.
func (s *Source) stepsOf(name string) Tensor {
	return Tensor{dcpStep, name, "F32", tensor.Shape{}, func(_, _ int, dst []byte) error {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(s.Step)))
		return nil
	}}
}

// dcpPath is the path of a tensor in the state dict, with the parameters under a key.
func (t Tensor) dcpPath(under string) []string {
	switch {
	case t.Kind != checkpoint.Param:
		return []string{"optimizer", "state", t.Name, t.Kind}
	case under != "":
		return []string{under, t.Name}
	}
	return []string{t.Name}
}

// countSteps takes the optimizer steps of the parameters: the most, since a parameter without a gradient has fewer.
func (s *Source) countSteps(steps []int) {
	switch {
	case len(steps) > 0:
		s.Step = slices.Max(steps)
		if least := slices.Min(steps); least < s.Step {
			s.note("parameters have done %d to %d optimizer steps; %d counts for all", least, s.Step, s.Step)
		}
	case slices.ContainsFunc(s.Tensors, func(t Tensor) bool { return t.Kind == "exp_avg" }):
		s.note("the moments have no number of steps: a run goes on from step 0 with them")
	}
}

// numbers decodes the types that a number of steps may have.
var numbers = map[safetensors.Type]func(b []byte) float64{
	"F32": func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
	"F64": func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
	"I64": func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) },
}

// whole reads the one element of a tensor, a number of steps.
func (t *dcpTensor) whole(files *dcpFiles) (int, error) {
	number := numbers[t.dtype]
	if t.shape.Elems() != 1 || number == nil {
		return 0, fmt.Errorf("%s is %s%v, not a number of steps", t.key, t.dtype, t.shape)
	}
	b := make([]byte, t.dtype.Size())
	if err := t.read(files, 0, 1, b); err != nil {
		return 0, err
	}
	n := number(b)
	if n != math.Trunc(n) || n < 0 || n > 1<<53 {
		return 0, fmt.Errorf("%s is %v, not a number of steps", t.key, n)
	}
	return int(n), nil
}
