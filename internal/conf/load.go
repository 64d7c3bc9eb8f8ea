package conf

import (
	"fmt"
	"reflect"
)

// Origins maps the path of every value to the place that decided it: "default",
// "run.yaml:3:5", "--set a.b=c", "environment TRIREME_A_B", "--flag". Lists are one value.
type Origins map[string]string

// Loaded is a decoded tree with its origins.
type Loaded[T any] struct {
	Value   T
	Origins Origins
	Former  []Problem // keys of earlier versions that sources have, without a text
}

// Load applies the sources, in order, over defaults, which it does not change, and calls the
// Validate methods of the nodes. T is a struct. The error, if any, is an Errors; the tree is
// then what could be read of it.
func Load[T any](defaults T, sources ...Source) (*Loaded[T], error) {
	out := &Loaded[T]{Value: defaults, Origins: Origins{}}
	root := reflect.ValueOf(&out.Value).Elem()
	if root.Kind() != reflect.Struct {
		panic(fmt.Sprintf("conf: Load of %s, which is not a struct", root.Type()))
	}
	d := &decoder{root: root, origins: out.Origins, bad: map[string]bool{}, copied: map[string]bool{}, nodes: map[string]string{}, listed: map[string]bool{}}
	for _, s := range sources {
		if s.kind == kindHints {
			d.hint = s.hint
		}
	}
	for _, s := range sources {
		d.apply(s)
	}
	d.defaults(root, "")
	out.Former = d.former
	if !d.unread {
		d.validate(root, "")
	}
	if len(d.problems) > 0 {
		return out, d.problems
	}
	return out, nil
}
