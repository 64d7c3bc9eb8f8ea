package conf

import (
	"fmt"
	slash "path"
	"reflect"
	"slices"
	"strings"
)

// A node may have one of these.
type (
	validator      interface{ Validate() error }
	multiValidator interface{ Validate() []error }
)

// validate calls the Validate methods of v and of what is below it, children first. Of a node with
// something wrong inside only errors about values that a source has set are kept: others may only
// follow from what is wrong.
//
// An error may be several (errors.Join). The name of the node's package before it is left
// out, and one that begins with a key of the node is placed at that key: "train: max_steps
// is 0" of the node training becomes "run.yaml:3:5: training.max_steps: is 0".
func (d *decoder) validate(v reflect.Value, path string) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fields(v.Type()) {
			d.validate(v.FieldByIndex(f.index), join(path, f.name))
		}
	case reflect.Map:
		elems := mapKeys(v)
		for _, k := range sortedKeys(elems) {
			d.validate(elems[k], join(path, k))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			d.validate(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	}
	spoiled := d.bad[path]
	for _, err := range callValidate(v) {
		for _, one := range flatten(err) {
			if p := d.locate(v, path, one); !spoiled || d.written(p.Path) {
				d.problem(p)
			}
		}
	}
}

// written says whether a source has set the value of a path, to one without a known problem.
func (d *decoder) written(path string) bool {
	o, isValue := d.origins[path]
	return isValue && o != "default" && !d.bad[path]
}

func callValidate(v reflect.Value) []error {
	if !v.CanInterface() {
		return nil
	}
	x := v.Interface()
	if v.CanAddr() {
		x = v.Addr().Interface()
	}
	switch x := x.(type) {
	case multiValidator:
		return x.Validate()
	case validator:
		if err := x.Validate(); err != nil {
			return []error{err}
		}
	}
	return nil
}

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

// locate finds the key that a node's error speaks of, and the place that set it.
func (d *decoder) locate(v reflect.Value, path string, err error) Problem {
	p := Problem{Path: path, Text: err.Error(), Err: err}
	_, pkg := slash.Split(v.Type().PkgPath())
	p.Text = strings.TrimPrefix(p.Text, pkg+": ") // the path says it
	key, rest, _ := strings.Cut(p.Text, " ")
	key = strings.TrimSuffix(key, ":")
	next, _, _ := strings.Cut(rest, " ")
	switch {
	case next == "" || next == "and" || next == "or" || v.Kind() != reflect.Struct:
	case hasPath(v.Type(), key):
		p.Path, p.Text = join(path, key), rest
	case path != "" && key == path[strings.LastIndexByte(path, '.')+1:]:
		p.Text = rest
	}
	if o, isValue := d.origins[p.Path]; !isValue {
		p.Where = d.nodes[p.Path]
	} else if o != "default" {
		p.Where = o
	}
	return p
}

// hasPath tells whether a dotted path leads to a key of t.
func hasPath(t reflect.Type, path string) bool {
	key, rest, more := strings.Cut(path, ".")
	fs := fields(t)
	i := slices.IndexFunc(fs, func(f field) bool { return f.name == key })
	if i < 0 || !more {
		return i >= 0
	}
	below := indirect(fs[i].typ)
	return isNode(below) && hasPath(below, rest)
}
