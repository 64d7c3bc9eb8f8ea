package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

var (
	errLarge = errors.New("number out of range")
	errZero  = errors.New("division by zero")
)

// operate evaluates a op b for arithmetic.
func (r *run) operate(op string, a, b any) (any, error) {
	if op == "~" {
		x, err := r.text(a)
		if err != nil {
			return nil, err
		}
		y, err := r.text(b)
		if err != nil {
			return nil, err
		}
		return x + y, r.spendText(len(x) + len(y))
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(undefined); ok {
			return nil, u.use()
		}
	}
	i, okI := integer(a)
	j, okJ := integer(b)
	if okI && okJ && op != "/" {
		return whole(op, i, j)
	}
	x, okX := float(a)
	y, okY := float(b)
	if okX && okY {
		return decimal(op, x, y)
	}
	switch op {
	case "+":
		return r.join(a, b)
	case "*":
		if okI {
			return r.repeat(b, i)
		}
		if okJ {
			return r.repeat(a, j)
		}
	}
	return nil, fmt.Errorf("unsupported operands: %s %s %s", describe(a), op, describe(b))
}

// join evaluates a + b for strings and lists.
func (r *run) join(a, b any) (any, error) {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			if err := r.spendText(len(x) + len(y)); err != nil {
				return nil, err
			}
			return x + y, nil
		}
	}
	x, okX := sequence(a)
	y, okY := sequence(b)
	if okX && okY && describe(a) == describe(b) {
		if err := r.spendItems(len(x) + len(y)); err != nil {
			return nil, err
		}
		out := append(append(make([]any, 0, len(x)+len(y)), x...), y...)
		if _, ok := a.(tuple); ok {
			return tuple(out), nil
		}
		return out, nil
	}
	return nil, fmt.Errorf("unsupported operands: %s + %s", describe(a), describe(b))
}

// repeat evaluates v * n for strings and lists.
func (r *run) repeat(v any, n int64) (any, error) {
	n = max(n, 0)
	if n > maxText {
		return nil, errLarge
	}
	switch v := v.(type) {
	case string:
		if err := r.spendText(len(v) * int(n)); err != nil {
			return nil, err
		}
		return strings.Repeat(v, int(n)), nil
	case []any, tuple:
		list, _ := sequence(v)
		if err := r.spendItems(len(list) * int(n)); err != nil {
			return nil, err
		}
		out := make([]any, 0, len(list)*int(n))
		for range n {
			out = append(out, list...)
		}
		if _, ok := v.(tuple); ok {
			return tuple(out), nil
		}
		return out, nil
	}
	return nil, fmt.Errorf("unsupported operands: %s * %d", describe(v), n)
}

// whole is integer arithmetic, limited to 64 bits.
func whole(op string, i, j int64) (any, error) {
	switch op {
	case "+":
		if s := i + j; (s > i) == (j > 0) {
			return s, nil
		}
		return nil, errLarge
	case "-":
		if s := i - j; (s < i) == (j > 0) {
			return s, nil
		}
		return nil, errLarge
	case "*":
		return times(i, j)
	case "//", "%":
		if j == 0 {
			return nil, errZero
		}
		if j == -1 {
			if op == "%" {
				return int64(0), nil
			}
			return times(i, -1)
		}
		q, m := i/j, i%j
		if m != 0 && (m < 0) != (j < 0) {
			q, m = q-1, m+j
		}
		if op == "%" {
			return m, nil
		}
		return q, nil
	}
	return nil, fmt.Errorf("unsupported operator %s for integers", op)
}

func times(i, j int64) (any, error) {
	hi, lo := bits.Mul64(magnitude(i), magnitude(j))
	if hi != 0 || lo > math.MaxInt64 {
		return nil, errLarge
	}
	return i * j, nil
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

// decimal is floating-point arithmetic.
func decimal(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	}
	if y == 0 {
		return nil, errZero
	}
	switch op {
	case "//":
		return math.Floor(x / y), nil
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m, nil
	}
	return x / y, nil
}
