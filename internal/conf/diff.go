package conf

import "reflect"

// Change is a value that differs between two trees.
type Change struct {
	Path     string
	From, To string // as printed; "" if a tree has no such value
}

// Diff lists the values that differ between two trees, in the order of Print.
func Diff[T any](from, to T) []Change {
	var a, b leaves
	a.add(reflect.ValueOf(&from).Elem(), "")
	b.add(reflect.ValueOf(&to).Elem(), "")
	old := map[string]string{}
	for _, l := range a {
		old[l.Path] = l.To
	}
	var out []Change
	for _, l := range b {
		was, there := old[l.Path]
		delete(old, l.Path)
		if !there || was != l.To {
			out = append(out, Change{l.Path, was, l.To})
		}
	}
	for _, l := range a { // map keys of the first tree only
		if _, left := old[l.Path]; left {
			out = append(out, Change{Path: l.Path, From: l.To})
		}
	}
	return out
}

type leaves []Change

func (l *leaves) add(v reflect.Value, path string) {
	for _, c := range children(v) {
		value, at := deref(c.value), join(path, c.name)
		if children(value) != nil && !printsAsText(value) {
			l.add(value, at)
			continue
		}
		*l = append(*l, Change{Path: at, To: flow(value)})
	}
}
