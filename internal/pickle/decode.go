package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"unicode/utf8"
)

// Config gives the meaning of what a pickle refers to outside of itself. A nil function refuses all.
type Config struct {
	// Call returns the value of f(*args). An error refuses the pickle. Call must not keep args of a
	// value that it refuses.
	Call func(f Global, args Tuple) (any, error)
	// Persistent returns the value of a persistent id, such as a storage of torch.save.
	Persistent func(id any) (any, error)
}

// Refused is the error for a global that Config.Call does not know.
type Refused struct{ Global Global }

func (e *Refused) Error() string { return fmt.Sprintf("it calls %s, which is not data", e.Global) }

// Decode reads the pickle at the start of b and returns its value and length. Errors name the
// offset in b.
func Decode(b []byte, c Config) (value any, n int, err error) {
	d := decoder{in: b, memo: map[uint64]any{}, c: c}
	for {
		at := d.at
		done, err := d.step()
		switch {
		case err != nil:
			return nil, d.at, fmt.Errorf("offset %d: %w", at, err)
		case done:
			return d.stack[0], d.at, nil
		}
	}
}

// mark is the opcode MARK on the stack.
type mark struct{}

type decoder struct {
	in    []byte
	at    int
	stack []any
	memo  map[uint64]any
	c     Config
}

var (
	errShort  = errors.New("it ends too early")
	errStack  = errors.New("an operand is missing")
	errString = errors.New("a string is not UTF-8")
)

// bytes returns the next n bytes.
func (d *decoder) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(d.in)-d.at) {
		return nil, errShort
	}
	b := d.in[d.at : d.at+int(n)]
	d.at += int(n)
	return b, nil
}

// uint reads an unsigned integer of n bytes.
func (d *decoder) uint(n int) (uint64, error) {
	b, err := d.bytes(uint64(n))
	if err != nil {
		return 0, err
	}
	var v [8]byte
	copy(v[:], b)
	return binary.LittleEndian.Uint64(v[:]), nil
}

// counted reads a length, an integer of n bytes, and that number of bytes.
func (d *decoder) counted(n int) ([]byte, error) {
	size, err := d.uint(n)
	if err != nil {
		return nil, err
	}
	return d.bytes(size)
}

// line reads to the next newline.
func (d *decoder) line() (string, error) {
	const most = 4096
	for i, c := range d.in[d.at:min(len(d.in), d.at+most)] {
		if c == '\n' {
			s := string(d.in[d.at : d.at+i])
			d.at += i + 1
			if !utf8.ValidString(s) {
				return "", errString
			}
			return s, nil
		}
	}
	return "", errShort
}

func (d *decoder) push(v any) { d.stack = append(d.stack, v) }

func (d *decoder) pop() (any, error) {
	n := len(d.stack) - 1
	if n < 0 {
		return nil, errStack
	}
	v := d.stack[n]
	if _, ok := v.(mark); ok {
		return nil, errStack
	}
	d.stack = d.stack[:n]
	return v, nil
}

// top returns the value on top of the stack.
func (d *decoder) top() (any, error) {
	v, err := d.pop()
	if err == nil {
		d.push(v)
	}
	return v, err
}

// marked removes the values above the last MARK, and the MARK.
func (d *decoder) marked() ([]any, error) {
	for i := len(d.stack) - 1; i >= 0; i-- {
		if _, ok := d.stack[i].(mark); ok {
			vs := append([]any{}, d.stack[i+1:]...)
			d.stack = d.stack[:i]
			return vs, nil
		}
	}
	return nil, errStack
}

// tuple replaces the last n values by a tuple.
func (d *decoder) tuple(n int) error {
	t := make(Tuple, n)
	for i := n - 1; i >= 0; i-- {
		v, err := d.pop()
		if err != nil {
			return err
		}
		t[i] = v
	}
	d.push(t)
	return nil
}

// add adds items to the list, set or dict on top of the stack.
func (d *decoder) add(op byte, items []any) error {
	to, err := d.top()
	if err != nil {
		return err
	}
	switch to := to.(type) {
	case *List:
		if op == opAppend || op == opAppends {
			to.Items = append(to.Items, items...)
			return nil
		}
	case *Set:
		if op == opAddItems {
			to.Items = append(to.Items, items...)
			return nil
		}
	case *Dict:
		if (op == opSetItem || op == opSetItems) && len(items)%2 == 0 {
			for i := 0; i < len(items); i += 2 {
				to.Set(items[i], items[i+1])
			}
			return nil
		}
	}
	return fmt.Errorf("items are added to a %T", to)
}

// call is REDUCE.
func (d *decoder) call() error {
	f, args, err := d.callee()
	if err != nil {
		return err
	}
	if d.c.Call == nil {
		return &Refused{f}
	}
	v, err := d.c.Call(f, args)
	if err != nil {
		return err
	}
	d.push(v)
	return nil
}

func (d *decoder) callee() (f Global, args Tuple, err error) {
	a, err := d.pop()
	if err != nil {
		return f, nil, err
	}
	g, err := d.pop()
	if err != nil {
		return f, nil, err
	}
	f, ok := g.(Global)
	args, tuple := a.(Tuple)
	if !ok || !tuple {
		return f, nil, fmt.Errorf("a %T is called with a %T", g, a)
	}
	return f, args, nil
}

// build is BUILD: the state of the object on top.
func (d *decoder) build() error {
	state, err := d.pop()
	if err != nil {
		return err
	}
	to, err := d.top()
	if err != nil {
		return err
	}
	if o, ok := to.(*Object); ok {
		o.State = state
	}
	return nil // attributes of a dict, such as _metadata of a state dict, are not data
}

func (d *decoder) global(module, name any) error {
	m, ok1 := module.(string)
	n, ok2 := name.(string)
	if !ok1 || !ok2 {
		return errors.New("the name of a global is no string")
	}
	d.push(Global{m, n})
	return nil
}

// long decodes a little-endian two's complement integer.
func long(b []byte) any {
	if len(b) == 0 {
		return int64(0)
	}
	if len(b) <= 8 {
		var v [8]byte
		if b[len(b)-1] >= 0x80 {
			v = [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		}
		copy(v[:], b)
		return int64(binary.LittleEndian.Uint64(v[:]))
	}
	reversed := make([]byte, len(b))
	for i, c := range b {
		reversed[len(b)-1-i] = c
	}
	v := new(big.Int).SetBytes(reversed)
	if b[len(b)-1] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}

func float(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) }
