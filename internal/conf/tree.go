package conf

import (
	"math"
	"reflect"
)

// Tree converts a tree for JSON: groups are maps, numbers are numbers. Infinities, NaN and types that
// print as text are strings as printed.
func Tree[T any](tree T) map[string]any {
	out, _ := plain(reflect.ValueOf(&tree).Elem()).(map[string]any)
	return out
}

func plain(v reflect.Value) any {
	v = deref(v)
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return nil
	}
	if v.Kind() == reflect.Interface {
		return plain(v.Elem())
	}
	if m, ok := asMarshaler(v); ok {
		if text, err := m.MarshalText(); err == nil {
			return untyped(&node{kind: scalarNode, text: string(text), quoted: !v.CanInt()})
		}
	}
	switch {
	case v.Kind() == reflect.Map || v.Kind() == reflect.Struct:
		out := map[string]any{}
		for _, c := range children(v) {
			out[c.name] = plain(c.value)
		}
		return out
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i))
		}
		return out
	case v.CanFloat() && (math.IsInf(v.Float(), 0) || math.IsNaN(v.Float())):
		return formatFloat(v.Float(), v.Type().Bits())
	}
	return v.Interface()
}
