package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/objectstore"
	"trireme/tensor"
)

// Tensor is a parameter of a source, or a slot of its optimizer state.
type Tensor struct {
	Kind  string // checkpoint.Param, exp_avg or exp_avg_sq
	Name  string // without prefixes of wrappers
	Type  safetensors.Type
	Shape tensor.Shape
	// Read reads elements [first, first+count) in row-major order into dst, which has their size.
	Read func(first, count int, dst []byte) error
}

// Bytes returns the size of all elements.
func (t Tensor) Bytes() int64 { return int64(t.Shape.Elems()) * int64(t.Type.Size()) }

func (t Tensor) String() string { return fmt.Sprintf("%s %s%v", t.Name, t.Type, t.Shape) }

// Source is a checkpoint to convert.
type Source struct {
	Path    string
	Format  string // for the report, such as "a DeepSpeed ZeRO-3 checkpoint of 4 ranks"
	Tensors []Tensor
	Model   string   // directory of config.json and perhaps a tokenizer; "" for none
	Config  []byte   // config.json, if it is known without Model; set by the caller
	Step    int      // optimizer steps done, if known
	Notes   []string // what was left out
	// Unchecked: the files have no checksums of the tensors.
	Unchecked bool

	closers []func() error
}

// ErrUnknown is wrapped by the error of Open for a directory of no known format.
var ErrUnknown = errors.New("unknown format")

// unknown is an error that wraps ErrUnknown.
type unknown struct{ error }

func (u unknown) Unwrap() []error { return []error{u.error, ErrUnknown} }

// Close closes the files.
func (s *Source) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

func (s *Source) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Open detects the format of a file or directory and opens it.
func Open(path string) (*Source, error) {
	s := &Source{Path: path}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.finish(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Source) open() error {
	if objectstore.IsURL(s.Path) {
		return s.openOwn()
	}
	st, err := os.Stat(s.Path)
	switch {
	case err != nil:
		return fmt.Errorf("convert: %w", err)
	case st.IsDir():
		return s.openDirectory()
	case filepath.Ext(s.Path) == ".safetensors":
		s.Format = "a safetensors file"
		return s.openSafetensors(s.Path)
	}
	s.Format = "a file of torch.save"
	return s.openTorch(s.Path)
}

// finish removes prefixes and types that no target has, and sorts nothing: the order is the source's.
func (s *Source) finish() error {
	for i := range s.Tensors {
		s.Tensors[i].Name = clean(s.Tensors[i].Name)
	}
	seen := map[[2]string]bool{}
	var skipped []string
	s.Tensors = slices.DeleteFunc(s.Tensors, func(t Tensor) bool {
		_, known := t.Type.DType()
		if !known && !isFloat8(t.Type) {
			skipped = append(skipped, t.String())
			return true
		}
		return false
	})
	if len(skipped) > 0 {
		s.note("left out, not of a type that parameters have: %s", few(skipped))
	}
	params := 0
	for i, t := range s.Tensors {
		key := [2]string{t.Kind, t.Name}
		if seen[key] {
			return fmt.Errorf("convert: %s has %s twice", s.Path, t.Name)
		}
		seen[key] = true
		if isFloat8(t.Type) {
			s.Tensors[i] = widen(t)
		}
		if t.Kind == checkpoint.Param {
			params++
		}
	}
	if params == 0 {
		return fault.Try(fmt.Errorf("convert: %s has no tensors", s.Path), "a state dict or a checkpoint of a model")
	}
	return nil
}

func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return fmt.Sprint(names)[1 : len(fmt.Sprint(names))-1]
	}
	return fmt.Sprintf("%s and %d more", few(names[:most]), len(names)-most)
}

func isFloat8(t safetensors.Type) bool { return t == "F8_E4M3" || t == "F8_E5M2" }

// widen reads an 8-bit float as bfloat16, which has all its values.
func widen(t Tensor) Tensor {
	var table [256]uint16
	for i := range table {
		table[i] = uint16(math.Float32bits(float8(byte(i), t.Type == "F8_E5M2")) >> 16)
	}
	read := t.Read
	t.Type = "BF16"
	t.Read = func(first, count int, dst []byte) error {
		half := dst[count:]
		if err := read(first, count, half); err != nil {
			return err
		}
		for i, b := range half { // dst[2i] is behind half[i] until both meet at the end
			binary.LittleEndian.PutUint16(dst[2*i:], table[b])
		}
		return nil
	}
	return t
}

// float8 is the value of an OCP 8-bit float: E5M2 has infinities, E4M3 only NaN.
func float8(b byte, e5m2 bool) float32 {
	sign := float32(1)
	if b&0x80 != 0 {
		sign = -1
	}
	mantissa, bias := 3, 7
	if e5m2 {
		mantissa, bias = 2, 15
	}
	e, m := int(b&0x7f)>>mantissa, int(b)&(1<<mantissa-1)
	switch {
	case e5m2 && e == 31 && m == 0:
		return sign * float32(math.Inf(1))
	case e5m2 && e == 31, !e5m2 && b&0x7f == 0x7f:
		return float32(math.NaN())
	case e == 0:
		return sign * float32(math.Ldexp(float64(m), 1-bias-mantissa))
	}
	return sign * float32(math.Ldexp(float64(1<<mantissa+m), e-bias-mantissa))
}

func exists(elem ...string) bool {
	_, err := os.Stat(filepath.Join(elem...))
	return !errors.Is(err, fs.ErrNotExist)
}
