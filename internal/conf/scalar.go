package conf

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
)

// scalar decodes one value of a basic kind.
func (d *decoder) scalar(n *node, v reflect.Value, path string) {
	if err := d.setScalar(n, v); err != nil {
		d.failf(n, path, "%s", err)
		return
	}
	d.origins[path] = n.at()
}

func (d *decoder) setScalar(n *node, v reflect.Value) error {
	t := v.Type()
	want, ok := kindNames[t.Kind()]
	if !ok {
		panic(fmt.Sprintf("conf: values of type %s cannot be configured", t))
	}
	switch {
	case n.kind == nullNode && t.Kind() == reflect.String:
		v.SetString("")
		return nil
	case n.kind == nullNode:
		return fmt.Errorf("has no value: set it to %s, or remove the key", want)
	case n.kind != scalarNode:
		return fmt.Errorf("is %s, not %s", n.describe(), want)
	}
	wrong := fmt.Errorf("%q is not %s", clip(n.text), want)
	switch {
	case v.CanInt():
		x, err := parseInt(n.text, t.Bits())
		if errors.Is(err, errRange) {
			return fmt.Errorf("%s does not fit in %d bits", clip(n.text), t.Bits())
		} else if err != nil {
			return wrong
		}
		v.SetInt(x)
	case v.CanUint():
		x, err := parseUint(n.text, t.Bits())
		if errors.Is(err, errRange) {
			return fmt.Errorf("%s is negative or does not fit in %d bits", clip(n.text), t.Bits())
		} else if err != nil {
			return wrong
		}
		v.SetUint(x)
	case v.CanFloat():
		x, err := parseFloat(n.text, t.Bits())
		if errors.Is(err, errRange) {
			return fmt.Errorf("%s does not fit in %d bits", clip(n.text), t.Bits())
		} else if err != nil {
			return wrong
		}
		v.SetFloat(x)
	case t.Kind() == reflect.Bool:
		x, ok := parseBool(n.text)
		if !ok {
			return wrong
		}
		v.SetBool(x)
	default:
		v.SetString(n.text)
	}
	return nil
}

var kindNames = map[reflect.Kind]string{
	reflect.Bool: "true or false", reflect.String: "a text",
	reflect.Int: "an integer", reflect.Int8: "an integer", reflect.Int16: "an integer",
	reflect.Int32: "an integer", reflect.Int64: "an integer",
	reflect.Uint: "an integer", reflect.Uint8: "an integer", reflect.Uint16: "an integer",
	reflect.Uint32: "an integer", reflect.Uint64: "an integer",
	reflect.Float32: "a number", reflect.Float64: "a number",
}

func parseBool(s string) (value, ok bool) {
	switch s {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

var (
	errRange  = errors.New("out of range")
	errSyntax = errors.New("not a number")
)

func parseInt(s string, bits int) (int64, error) {
	x, err := whole(s)
	if err != nil {
		return 0, err
	}
	if !x.IsInt64() || x.Int64()<<(64-bits)>>(64-bits) != x.Int64() {
		return 0, errRange
	}
	return x.Int64(), nil
}

func parseUint(s string, bits int) (uint64, error) {
	x, err := whole(s)
	if err != nil {
		return 0, err
	}
	if !x.IsUint64() || x.Uint64()<<(64-bits)>>(64-bits) != x.Uint64() {
		return 0, errRange
	}
	return x.Uint64(), nil
}

// whole parses an integer exactly: 42, 1_000, 0x10, 1e9, 2.5e3. A leading zero does not mean octal.
func whole(s string) (*big.Int, error) {
	const longest = 400 // digits or exponent, beyond float64
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || len(s) > longest || digits == "" {
		return nil, errSyntax
	}
	if digits[0] == '0' && len(digits) > 1 && strings.ContainsRune("xob", rune(digits[1])) {
		if x, ok := new(big.Int).SetString(s, 0); ok {
			return x, nil
		}
		return nil, errSyntax
	}
	if !strings.ContainsAny(digits, ".eE") {
		if x, ok := new(big.Int).SetString(strings.ReplaceAll(s, "_", ""), 10); ok && digits[0] != '_' {
			return x, nil
		}
		return nil, errSyntax
	}
	if strings.ContainsAny(digits, "xXpP_/iInN") {
		return nil, errSyntax
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(digits), "e"); ok {
		e, err := strconv.Atoi(exponent)
		if err != nil {
			return nil, errSyntax
		}
		if e > longest || e < -longest {
			return nil, errRange
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() {
		return nil, errSyntax
	}
	return new(big.Int).Set(r.Num()), nil
}

// parseFloat parses a number, or YAML's .inf and .nan.
func parseFloat(s string, bits int) (float64, error) {
	switch strings.ToLower(s) {
	case ".inf", "+.inf":
		return math.Inf(1), nil
	case "-.inf":
		return math.Inf(-1), nil
	case ".nan":
		return math.NaN(), nil
	}
	if x, err := whole(s); err == nil && !strings.ContainsAny(s, ".eE") {
		s = x.String()
	}
	if strings.ContainsAny(s, "xXpP_iInN") {
		return 0, errSyntax
	}
	f, err := strconv.ParseFloat(s, bits)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errRange
	}
	if err != nil {
		return 0, errSyntax
	}
	return f, nil
}
