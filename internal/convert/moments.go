package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"trireme/checkpoint/safetensors"
	"trireme/internal/pickle"
	"trireme/internal/torchfile"
	"trireme/tensor"
)

// adamSlots are the moments of Adam, by PyTorch's and this program's names.
var adamSlots = []string{"exp_avg", "exp_avg_sq"}

// stepSlot is PyTorch's name of a parameter's number of optimizer steps.
const stepSlot = "step"

func (s *Source) ofKind(kind string) (all []Tensor) {
	for _, t := range s.Tensors {
		if t.Kind == kind {
			all = append(all, t)
		}
	}
	return all
}

// moments returns the first and second moments of Adam. Both are empty unless all are floats: an
// optimizer with states of 8 bits has codes, which mean nothing without their scales.
func (s *Source) moments() (first, second []Tensor) {
	first, second = s.ofKind(adamSlots[0]), s.ofKind(adamSlots[1])
	if len(first) != len(second) || slices.ContainsFunc(append(slices.Clip(first), second...), func(t Tensor) bool { return !t.isFloat() }) {
		return nil, nil
	}
	return first, second
}

// leftOut notes what is not among a number of written tensors.
func (s *Source) leftOut(written int) []string {
	if rest := len(s.Tensors) - written; rest > 0 {
		return []string{fmt.Sprintf("left out: %d other tensors, such as the state of an optimizer", rest)}
	}
	return nil
}

// addMoments adds the moments in the state dict of an optimizer that has them by the names of
// parameters, as those of FSDP and of torch.distributed.checkpoint.state_dict, and returns their
// numbers of steps. PyTorch's own state dict numbers the parameters: ok is false, and nothing is added.
func (s *Source) addMoments(optimizer *pickle.Dict) (steps []int, ok bool, err error) {
	var state *pickle.Dict
	if optimizer != nil {
		v, _ := optimizer.Get("state")
		state, _ = v.(*pickle.Dict)
	}
	if state == nil || len(state.Keys) == 0 {
		return nil, false, nil
	}
	var found []Tensor
	var others []string
	for i, key := range state.Keys {
		name, isName := key.(string)
		slots, isDict := state.Values[i].(*pickle.Dict)
		if !isName || !isDict {
			return nil, false, nil
		}
		for k, v := range slots.Values {
			kind, _ := slots.Keys[k].(string)
			t, isTensor := v.(*torchfile.Tensor)
			switch {
			case isTensor && slices.Contains(adamSlots, kind):
				found = append(found, Tensor{kind, name, t.Type, t.Shape, t.ReadRange})
			case isTensor && kind == stepSlot:
				n, err := Tensor{kind, name, t.Type, t.Shape, t.ReadRange}.whole()
				if err != nil {
					return nil, false, err
				}
				steps = append(steps, n)
			default:
				others = append(others, fmt.Sprintf("%v of %s", slots.Keys[k], name))
			}
		}
	}
	if len(others) > 0 {
		s.note("left out of the optimizer's state, neither moments nor steps: %s", few(others))
	}
	s.Tensors = append(s.Tensors, found...)
	return steps, true, nil
}

// countSteps takes the optimizer steps of the parameters: the most, since a parameter without a gradient has fewer.
func (s *Source) countSteps(steps []int) {
	switch {
	case len(steps) > 0:
		s.Step = slices.Max(steps)
		if least := slices.Min(steps); least < s.Step {
			s.note("parameters have done %d to %d optimizer steps; %d counts for all", least, s.Step, s.Step)
		}
	case s.Step == 0 && len(s.ofKind(adamSlots[0])) > 0:
		s.note("the moments have no number of steps: a run goes on from step 0 with them")
	}
}

// steps is the number of optimizer steps of a parameter, a tensor without dimensions as in PyTorch.
func (s *Source) steps(name string) Tensor {
	return Tensor{stepSlot, name, "F32", tensor.Shape{}, func(_, _ int, dst []byte) error {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(s.Step)))
		return nil
	}}
}

// numbers decodes the types that a number of steps may have.
var numbers = map[safetensors.Type]func(b []byte) float64{
	"F32": func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
	"F64": func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
	"I64": func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) },
}

// whole reads the one element of a tensor, a number of steps.
func (t Tensor) whole() (int, error) {
	number := numbers[t.Type]
	if t.Shape.Elems() != 1 || number == nil {
		return 0, fmt.Errorf("%s of %v is not a number of steps", t.Kind, t)
	}
	b := make([]byte, t.Type.Size())
	if err := t.Read(0, 1, b); err != nil {
		return 0, err
	}
	n := number(b)
	if n != math.Trunc(n) || n < 0 || n > 1<<53 {
		return 0, fmt.Errorf("%s of %s is %v, not a number of steps", t.Kind, t.Name, n)
	}
	return int(n), nil
}
