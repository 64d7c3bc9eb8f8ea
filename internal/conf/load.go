package conf

import (
	"fmt"
	"reflect"
)

// Origins maps the path of each value to its source: "default", "run.yaml:3:5", "--set a.b=c",
// "environment TRIREME_A_B", "--flag". A list is one value.
type Origins map[string]string

// Loaded is a decoded tree with its origins.
type Loaded[T any] struct {
	Value   T
	Origins Origins
	Former  []Problem // obsolete keys in the sources, without Text
}

// Load applies sources in order to a copy of defaults and calls the nodes' Validate methods. T is a
// struct. With an error, an Errors, the tree is the part that could be read.
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
