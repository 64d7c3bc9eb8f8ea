package optim

import (
	"fmt"
	"path"

	"trireme/fault"
	"trireme/tensor"
)

// Param describes a parameter for choosing its optimizer.
type Param struct {
	Name  string
	Shape tensor.Shape
	// Hidden marks matrices between hidden states: not embeddings or heads.
	Hidden bool
}

// Group overrides options of the parameters that match a pattern.
type Group struct {
	// Match is a name or a pattern of path.Match: *, ? and [...].
	Match string
	// LRFactor multiplies the learning rate.
	LRFactor float64
	// WeightDecay applies to all matching parameters; nil keeps the default.
	WeightDecay *float64
	// Optimizer is nil for the default.
	Optimizer Optimizer
}

// Grouping maps parameters to options.
type Grouping struct {
	Optimizer Optimizer
	// WeightDecay is for parameters with two or more dimensions, so not for biases and norm
	// weights.
	WeightDecay float64
	// Groups are tried in order; the first match applies.
	Groups []Group
}

// ParamOptions are the options of a parameter. Parameters with equal options form one group.
type ParamOptions struct {
	Optimizer             Optimizer
	LRFactor, WeightDecay float64
}

// Of returns p's options.
func (g Grouping) Of(p Param) ParamOptions {
	s := ParamOptions{Optimizer: g.Optimizer, LRFactor: 1}
	if len(p.Shape) >= 2 {
		s.WeightDecay = g.WeightDecay
	}
	for _, group := range g.Groups {
		if !group.matches(p.Name) {
			continue
		}
		s.LRFactor = group.LRFactor
		if group.WeightDecay != nil {
			s.WeightDecay = *group.WeightDecay
		}
		if group.Optimizer != nil {
			s.Optimizer = group.Optimizer
		}
		break
	}
	s.Optimizer = suited(s.Optimizer, p)
	return s
}

// Selector is an optimizer that depends on the parameter.
type Selector interface {
	// For returns the optimizer of p, which is not a Selector.
	For(p Param) Optimizer
}

func suited(o Optimizer, p Param) Optimizer {
	if c, ok := o.(Selector); ok {
		return c.For(p)
	}
	return o
}

func (g Group) matches(name string) bool {
	ok, err := path.Match(g.Match, name)
	return ok && err == nil
}

// Check rejects invalid patterns and groups without parameters.
func (g Grouping) Check(params []Param) error {
	used := make([]bool, len(g.Groups))
	for _, p := range params {
		for i, group := range g.Groups {
			if group.matches(p.Name) {
				used[i] = true
				break
			}
		}
	}
	for i, group := range g.Groups {
		if _, err := path.Match(group.Match, ""); err != nil {
			return fault.Try(fmt.Errorf("training.parameter_groups: match %q is not a valid pattern", group.Match), "a name, or * for any run of characters")
		}
		if !used[i] {
			return fault.Try(fmt.Errorf("training.parameter_groups: no trainable parameter matches %q that no earlier group has", group.Match), "a pattern for a name such as %s", first(params))
		}
	}
	return nil
}

func first(params []Param) string {
	if len(params) == 0 {
		return "none"
	}
	return params[0].Name
}
