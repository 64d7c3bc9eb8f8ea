package parallel

import (
	"fmt"
	"slices"
	"strings"

	"trireme/internal/fault"
	"trireme/nn"
)

// Wrap is the node `parallel.wrap`: units that are all-gathered together and whose gradients are
// reduced together. Larger groups mean fewer and larger messages, and more memory.
type Wrap struct {
	// Policy is how units are grouped. One of transformer | size | none | list. transformer: the
	// embeddings, each layer and the head by itself; size: consecutive units, until a group has
	// min_num_params; none: all units in one group; list: each unit named in units by itself, and
	// the units between them together. Default transformer.
	Policy WrapPolicy `yaml:"policy"`
	// MinNumParams is the least number of parameters in a group of policy size. Default 1e8.
	MinNumParams int `yaml:"min_num_params"`
	// Units names the units of policy list, such as layers.3, or layers for all of them; the class
	// of the layers in transformers, LlamaDecoderLayer, is all of them too. An unknown name is an
	// error that lists the known ones. Default [].
	Units []string `yaml:"units"`
}

// WrapPolicy is how units are grouped.
type WrapPolicy string

// The policies.
const (
	WrapTransformer WrapPolicy = "transformer"
	WrapSize        WrapPolicy = "size"
	WrapNone        WrapPolicy = "none"
	WrapList        WrapPolicy = "list"
)

// Choices are the names.
func (WrapPolicy) Choices() []string {
	return []string{string(WrapTransformer), string(WrapSize), string(WrapNone), string(WrapList)}
}

// MarshalText is the name.
func (p WrapPolicy) MarshalText() ([]byte, error) { return []byte(p), nil }

// UnmarshalText reads one of Choices.
func (p *WrapPolicy) UnmarshalText(text []byte) error {
	if !slices.Contains(p.Choices(), string(text)) {
		return fmt.Errorf("parallel: wrap.policy %q is not known: transformer, size, none and list are", text)
	}
	*p = WrapPolicy(text)
	return nil
}

// Validate checks what does not depend on the model.
func (w Wrap) Validate() error {
	switch {
	case w.MinNumParams < 0:
		return fault.At("min_num_params", "is %d: it must be at least 0", w.MinNumParams)
	case w.Policy == WrapList && len(w.Units) == 0:
		return fault.Try(fault.At("units", "is empty, and policy is list: name units"), "%s", fault.Set("parallel.wrap.units", "[layers]"))
	case w.Policy != WrapList && len(w.Units) > 0:
		return fault.Try(fault.At("units", "is given, and policy is %s", w.Policy), "%s", fault.Set("parallel.wrap.policy", "list"))
	}
	return nil
}

// WithClass takes the Python class of a model's layers, LlamaDecoderLayer, for the name of their
// units: those that differ in a number.
func (w Wrap) WithClass(layer string, units []*nn.Unit) Wrap {
	w.Units = slices.Clone(w.Units)
	for i, name := range w.Units {
		for _, u := range units {
			if name == layer && class(u.Name) != u.Name {
				w.Units[i] = class(u.Name)
			}
		}
	}
	return w
}

// Check says which of the names a model's units do not have.
func (w Wrap) Check(units []*nn.Unit) error {
	var known []string
	for _, u := range units {
		if c := class(u.Name); !slices.Contains(known, c) {
			known = append(known, c)
		}
	}
	for _, name := range w.Units {
		if !slices.ContainsFunc(units, func(u *nn.Unit) bool { return named(u, name) }) {
			return fmt.Errorf("parallel: wrap.units: no unit of this model is called %s. units: %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// class is a unit's name without its number.
func class(name string) string {
	return strings.TrimRight(strings.TrimRight(name, "0123456789"), ".")
}

func named(u *nn.Unit, name string) bool { return u.Name == name || class(u.Name) == name }

// groups divides units in groups of such that follow one another.
func (w Wrap) groups(units []*nn.Unit) (out [][]*nn.Unit) {
	open := false // the last group takes more
	size := 0
	for _, u := range units {
		alone := w.Policy == "" || w.Policy == WrapTransformer || w.Policy == WrapList && slices.ContainsFunc(w.Units, func(name string) bool { return named(u, name) })
		if open && !alone {
			out[len(out)-1] = append(out[len(out)-1], u)
		} else {
			out, size = append(out, []*nn.Unit{u}), 0
		}
		for _, p := range u.Params {
			size += p.Shape.Elems()
		}
		open = !alone && (w.Policy != WrapSize || size < w.MinNumParams)
	}
	return out
}

// Persist says which parameters stay whole on each rank where others are divided: small ones, which
// take little memory. They lie in one flat, whose gradients are reduced at once when the first unit
// that has some has gone back, and whose new values are sent at once. Gradients and optimizer
// state are divided all the same. Parameters that are multiplied as one stay together.
type Persist struct {
	Most  int // elements of each
	InAll int // elements of all of them; 0 is no bound
}

// of lists them: in the order of units, as long as they are within the bound.
func (p Persist) of(units []*nn.Unit) map[*nn.Param]bool {
	whole := map[*nn.Param]bool{}
	elems := 0
	for _, u := range units {
		for first := 0; first < len(u.Params); {
			after, n, most := first, 0, 0
			for after == first || after < len(u.Params) && u.Params[after].After == u.Params[after-1] {
				k := u.Params[after].Shape.Elems()
				n, most = n+k, max(most, k)
				after++
			}
			if most <= p.Most && (p.InAll == 0 || elems+n <= p.InAll) {
				elems += n
				for _, q := range u.Params[first:after] {
					whole[q] = true
				}
			}
			first = after
		}
	}
	return whole
}
