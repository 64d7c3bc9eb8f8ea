package optim

import (
	"fmt"
	"path"

	"trireme/fault"
	"trireme/tensor"
)

// Param is what an optimizer is chosen by.
type Param struct {
	Name  string
	Shape tensor.Shape
	// Hidden says that it is a matrix from one hidden state to another: no embedding, no head.
	Hidden bool
}

// Group says how parameters are trained whose names match a pattern.
type Group struct {
	// Match is a name, or a pattern with * for any run of characters, ? for one and [...] for one
	// of a class.
	Match string
	// LRFactor multiplies the learning rate.
	LRFactor float64
	// WeightDecay is of all parameters that match; nil: as for parameters of no group.
	WeightDecay *float64
	// Optimizer is nil for that of parameters of no group.
	Optimizer Optimizer
}

// Grouping says how each parameter of a model is trained.
type Grouping struct {
	Optimizer Optimizer
	// WeightDecay is of parameters with two or more dimensions: not of biases and gains.
	WeightDecay float64
	// Groups are tried in order; the first that matches a name counts.
	Groups []Group
}

// ParamOptions is how a parameter is trained. Parameters with equal settings are one group of an update.
type ParamOptions struct {
	Optimizer             Optimizer
	LRFactor, WeightDecay float64
}

// Of is p's setting.
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

// Selector is an optimizer that leaves some parameters to another.
type Selector interface {
	// For is the optimizer of p, which is no Selector's choice any more.
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

// Check refuses patterns that are none, and groups that no parameter is in.
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
			return fault.Try(fmt.Errorf("training.parameter_groups: match %q is no pattern", group.Match), "a name, or * for any run of characters")
		}
		if !used[i] {
			return fault.Try(fmt.Errorf("training.parameter_groups: no parameter that trains matches %q (or an earlier group has it)", group.Match), "a pattern for a name such as %s", first(params))
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
