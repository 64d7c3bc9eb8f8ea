package conf

import (
	"fmt"
	"reflect"

	"trireme/fault"
)

type validator interface{ Validate() error }

// validate calls the Validate methods of v and its children, children first. In a node with problems it
// keeps only errors at values set by a source, since others may be consequences.
//
// An error may be a join of several. The position of fault.At("max_steps", "is 0") in the node training
// is that of the key: "run.yaml:3:5: training.max_steps: is 0".
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
	for _, err := range flatten(callValidate(v)) {
		if p := d.locate(path, err); !spoiled || d.written(p.Path) {
			d.problem(p)
		}
	}
}

// written reports whether a source has set the value at a path, without a problem.
func (d *decoder) written(path string) bool {
	o, isValue := d.origins[path]
	return isValue && o != "default" && !d.bad[path]
}

func callValidate(v reflect.Value) error {
	if !v.CanInterface() {
		return nil
	}
	x := v.Interface()
	if v.CanAddr() {
		x = v.Addr().Interface()
	}
	if x, ok := x.(validator); ok {
		return x.Validate()
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

// locate adds the origin of the key to a node's error.
func (d *decoder) locate(path string, err error) Problem {
	if at, ok := err.(*fault.Error); ok && at.Key() != "" {
		path, err = join(path, at.Key()), at.WithoutKey()
	}
	p := Problem{Path: path, Text: err.Error(), Err: err}
	if o, isValue := d.origins[p.Path]; !isValue {
		p.Where = d.nodes[p.Path]
	} else if o != "default" {
		p.Where = o
	}
	return p
}
