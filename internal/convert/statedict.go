package convert

import (
	"fmt"
	"slices"
	"strings"

	"trireme/checkpoint"
	"trireme/fault"
	"trireme/internal/pickle"
	"trireme/internal/torchfile"
)

// stateKeys are the keys under which trainers save the model's state dict, in order of preference.
var stateKeys = []string{"model_state_dict", "state_dict", "model", "module", "model_state", "net"}

// stepKeys are the keys of the number of steps.
var stepKeys = []string{"global_step", "global_steps", "step", "iteration"}

// openTorch adds the tensors of a file of torch.save.
func (s *Source) openTorch(path string) error {
	root, err := s.openDict(path)
	if err != nil {
		return err
	}
	s.Step = max(s.Step, stepOf(root))
	d := stateDict(root, 0)
	if d == nil {
		return fault.Try(fmt.Errorf("convert: %s has no state dict of a model; its keys are %s", path, keysOf(root)), "torch.save(model.state_dict(), FILE)")
	}
	if root != d {
		if err := s.addOptimizers(path, root); err != nil {
			return err
		}
	}
	s.addState(d)
	return nil
}

// openDict opens a file of torch.save that has a dict.
func (s *Source) openDict(path string) (*pickle.Dict, error) {
	f, err := torchfile.Open(path, torchfile.Options{})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, f.Close)
	root, ok := f.Value().(*pickle.Dict)
	if !ok {
		return nil, fault.Try(fmt.Errorf("convert: %s holds %s, not a state dict", path, describe(f.Value())), "torch.save(model.state_dict(), FILE)")
	}
	return root, nil
}

// openOptimizer adds the moments in a file that has the state dict of an optimizer alone.
func (s *Source) openOptimizer(path string) error {
	root, err := s.openDict(path)
	if err != nil {
		return err
	}
	d := &pickle.Dict{}
	d.Set("optimizer", root)
	return s.addOptimizers(path, d)
}

// stateDict finds the dict of tensors in what a trainer saved.
func stateDict(d *pickle.Dict, depth int) *pickle.Dict {
	for i, v := range d.Values {
		if _, ok := d.Keys[i].(string); !ok {
			continue
		}
		if _, ok := v.(*torchfile.Tensor); ok {
			return d
		}
	}
	if depth == 4 {
		return nil
	}
	for _, key := range stateKeys {
		v, _ := d.Get(key)
		if below, ok := v.(*pickle.Dict); ok {
			if found := stateDict(below, depth+1); found != nil {
				return found
			}
		}
	}
	return nil
}

// addOptimizers adds the moments of the optimizers beside the model's state dict in what a trainer saved.
func (s *Source) addOptimizers(path string, d *pickle.Dict) error {
	var numbered []string
	for i, key := range d.Keys {
		name, _ := key.(string)
		if !strings.Contains(name, "optim") || d.Values[i] == nil {
			continue
		}
		optimizer, _ := d.Values[i].(*pickle.Dict)
		steps, ok, err := s.addMoments(optimizer)
		if err != nil {
			return fmt.Errorf("convert: %s: %w", path, err)
		}
		if !ok {
			numbered = append(numbered, name)
		}
		s.countSteps(steps)
	}
	if len(numbered) > 0 {
		s.note("%s has no names of parameters and is left out", strings.Join(numbered, ", "))
	}
	return nil
}

func (s *Source) addState(d *pickle.Dict) {
	var others []string
	for i, key := range d.Keys {
		name, ok := key.(string)
		if t, isTensor := d.Values[i].(*torchfile.Tensor); ok && isTensor {
			s.Tensors = append(s.Tensors, Tensor{checkpoint.Param, name, t.Type, t.Shape, t.ReadRange})
		} else if d.Values[i] != nil {
			others = append(others, fmt.Sprintf("%v (%s)", key, describe(d.Values[i])))
		}
	}
	if len(others) > 0 {
		s.note("left out, not tensors: %s", few(others))
	}
}

func stepOf(d *pickle.Dict) int {
	for _, key := range stepKeys {
		if v, ok := d.Get(key); ok {
			if n, ok := v.(int64); ok && n >= 0 && n < 1<<40 {
				return int(n)
			}
		}
	}
	return 0
}

func keysOf(d *pickle.Dict) string {
	var names []string
	for _, k := range d.Keys {
		if name, ok := k.(string); ok {
			names = append(names, fmt.Sprintf("%.40q", name))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "no strings"
	}
	return few(names)
}

// describe names the type of a value of a pickle.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int64:
		return "an int"
	case float64:
		return "a float"
	case string:
		return "a string"
	case *pickle.Dict:
		return "a dict"
	case *pickle.List:
		return "a list"
	case pickle.Tuple:
		return "a tuple"
	case *torchfile.Tensor:
		return "one tensor"
	case *pickle.Object:
		return "an object of " + v.Class.String()
	}
	return "a value"
}
