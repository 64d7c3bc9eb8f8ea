package trackers

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"trireme/monitor"
)

// ParseParams lists the settings of a configuration in YAML, with dotted keys, in its order. Lists are
// texts; a setting without a value is "".
func ParseParams(text string) ([]monitor.Param, error) {
	var doc yaml.MapSlice
	if err := yaml.UnmarshalWithOptions([]byte(text), &doc, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("trackers: %w", err)
	}
	return flatten(nil, "", doc), nil
}

func flatten(out []monitor.Param, prefix string, doc yaml.MapSlice) []monitor.Param {
	for _, item := range doc {
		key := monitor.EscapeControl(prefix + fmt.Sprint(item.Key))
		switch v := item.Value.(type) {
		case yaml.MapSlice:
			out = flatten(out, key+".", v)
		case nil:
			out = append(out, monitor.Param{Key: key, Value: ""})
		case bool:
			out = append(out, monitor.Param{Key: key, Value: v})
		case int:
			out = append(out, monitor.Param{Key: key, Value: float64(v)})
		case int64:
			out = append(out, monitor.Param{Key: key, Value: float64(v)})
		case uint64:
			out = append(out, monitor.Param{Key: key, Value: float64(v)})
		case float64:
			out = append(out, monitor.Param{Key: key, Value: v})
		case string:
			out = append(out, monitor.Param{Key: key, Value: monitor.EscapeControl(v)})
		default:
			out = append(out, monitor.Param{Key: key, Value: monitor.EscapeControl(fmt.Sprint(v))})
		}
	}
	return out
}

// tree returns parameters as nested maps by the parts of their keys.
func tree(params []monitor.Param) map[string]any {
	root := map[string]any{}
	for _, p := range params {
		at := root
		parts := strings.Split(p.Key, ".")
		for _, name := range parts[:len(parts)-1] {
			below, ok := at[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[name] = below
			}
			at = below
		}
		if v, ok := p.Value.(float64); ok {
			at[parts[len(parts)-1]] = number(v)
		} else {
			at[parts[len(parts)-1]] = p.Value
		}
	}
	return root
}

// number is a float64 whose JSON is a string if it is not finite: NaN, Infinity or -Infinity, as protobuf's
// JSON and trackio have them.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.AppendQuote(nil, infinite(v)), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// infinite names a value that is not finite, as JavaScript and Python's json do.
func infinite(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case v > 0:
		return "Infinity"
	}
	return "-Infinity"
}

// scalars returns the numbers of an event, and the step and time they are of.
func (e event) scalars() (all []monitor.Scalar, step int64) {
	switch {
	case e.record != nil:
		return e.record.Scalars(), e.record.Step
	case e.eval != nil:
		return e.eval.Scalars(), e.eval.Step
	}
	return nil, 0
}
