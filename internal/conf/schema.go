package conf

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

var (
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	chooserType         = reflect.TypeFor[Chooser]()
)

// field is one key of a struct, inlined structs included.
type field struct {
	name  string
	index []int
	typ   reflect.Type
}

var fieldCache sync.Map // reflect.Type -> []field

// fields lists a struct's keys in order of declaration. It panics for a type that cannot be decoded.
func fields(t reflect.Type) []field {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]field)
	}
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
		case name == "" && sf.Anonymous && sf.Type.Kind() == reflect.Struct:
			for _, f := range fields(sf.Type) {
				out = append(out, field{f.name, append([]int{i}, f.index...), f.typ})
			}
		case name == "":
		case !sf.IsExported():
			panic(fmt.Sprintf("conf: %s.%s has a yaml tag but is not exported", t, sf.Name))
		default:
			out = append(out, field{name, []int{i}, sf.Type})
		}
	}
	seen := map[string]bool{}
	for _, f := range out {
		if seen[f.name] {
			panic(fmt.Sprintf("conf: %s has two fields for key %q", t, f.name))
		}
		seen[f.name] = true
	}
	fieldCache.Store(t, out)
	return out
}

func names(fs []field) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.name
	}
	return out
}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// isText reports whether a type decodes itself from a scalar.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(textUnmarshalerType) || t.Kind() == reflect.String && t.Implements(chooserType)
}

// isNode reports whether a type is a struct of keys.
func isNode(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(fields(t)) > 0 }

// walkPaths calls f with the path of every key below a struct type, parents first.
func walkPaths(t reflect.Type, f func(path string)) { walkBelow(t, "", nil, f) }

func walkBelow(t reflect.Type, prefix string, open []reflect.Type, f func(string)) {
	for _, o := range open {
		if o == t {
			return // a recursive type, already listed
		}
	}
	for _, k := range fields(t) {
		path := join(prefix, k.name)
		f(path)
		if below := indirect(k.typ); isNode(below) {
			walkBelow(below, path, append(open, t), f)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
