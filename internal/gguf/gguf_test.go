package gguf

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// memory is an Output.
type memory struct{ bytes.Buffer }

func (m *memory) WriteAt(b []byte, at int64) (int, error) { return copy(m.Bytes()[at:], b), nil }

// written is a file with every kind of value and type of tensor.
func written(t testing.TB) ([]byte, []KV, map[string][]float32) {
	t.Helper()
	metadata := []KV{
		{"general.architecture", "llama"}, {"u8", uint8(200)}, {"i8", int8(-3)}, {"u16", uint16(60000)}, {"i16", int16(-300)}, {"u32", uint32(4e9)}, {"i32", int32(-7)},
		{"u64", uint64(1 << 60)}, {"i64", int64(-1 << 60)}, {"f32", float32(1.5)}, {"f64", 2.5}, {"bool", true},
		{"words", []string{"", "Ġthe", "▁a"}}, {"floats", []float32{1, -2}}, {"numbers", []int32{1, 2, 3}}, {"flags", []bool{true, false}}, {"none", []uint64{}},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	values := map[string][]float32{}
	var tensors []Tensor
	for i, shape := range [][]int{{5}, {3, 64}, {2, 3, 4}, {7, 32}} {
		for _, kind := range []Type{F32, F16, BF16, Q8_0} {
			x := Tensor{Info: Info{Name: "t" + string(rune('0'+i)) + kind.String(), Type: kind, Shape: shape}}
			if kind == Q8_0 && x.Width()%32 != 0 {
				continue
			}
			v := make([]float32, x.Elems())
			for k := range v {
				v[k] = float32(rng.NormFloat64())
			}
			values[x.Name] = v
			x.Read = func(first int64, dst []float32) error { copy(dst, v[first:]); return nil }
			tensors = append(tensors, x)
		}
	}
	var b memory
	if err := Write(&b, metadata, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), metadata, values
}

func TestWriteAndRead(t *testing.T) {
	b, metadata, values := written(t)
	f, err := NewFile("x.gguf", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Metadata(); !reflect.DeepEqual(got, metadata) {
		t.Errorf("metadata is\n%v, want\n%v", got, metadata)
	}
	if len(f.Tensors()) != len(values) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors()), len(values))
	}
	for _, x := range f.Tensors() {
		got, err := f.Read(x.Name)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range values[x.Name] {
			bound := 0.0
			switch x.Type {
			case F16:
				bound = math.Abs(float64(want))/2048 + 1e-7
			case BF16:
				bound = math.Abs(float64(want)) / 256
			case Q8_0:
				most := 0.0
				for _, v := range values[x.Name][i/32*32 : i/32*32+32] {
					most = max(most, math.Abs(float64(v)))
				}
				bound = most/127*0.5 + most/2048 // half a step, and the rounding of the scale
			}
			if math.Abs(float64(got[i]-want)) > bound {
				t.Fatalf("%s: element %d is %v, want %v within %v", x.Name, i, got[i], want, bound)
			}
		}
	}
	if _, err := f.Read("absent"); err == nil {
		t.Error("an absent tensor was read")
	}
}

// Every cut of a file is an error, or the tensors are complete.
func TestTruncated(t *testing.T) {
	b, _, _ := written(t)
	for n := range b {
		if _, err := NewFile("x", bytes.NewReader(b[:n]), int64(n)); err == nil && n < len(b)-alignment {
			t.Fatalf("%d of %d bytes were accepted", n, len(b))
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	read := func(v float32) func(int64, []float32) error {
		return func(_ int64, dst []float32) error {
			for i := range dst {
				dst[i] = v
			}
			return nil
		}
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		t    Tensor
		want string
	}{
		{Tensor{Info{Name: "x", Type: Q8_0, Shape: []int{2, 33}}, read(1)}, "cannot be written"},
		{Tensor{Info{Name: "x", Type: Q8_0, Shape: []int{16, 2}}, read(1)}, "cannot be written"},
		{Tensor{Info{Name: "x", Type: 99, Shape: []int{2}}, read(1)}, "cannot be written"},
		{Tensor{Info{Name: "x", Type: F16, Shape: []int{2}}, read(1e6)}, "beyond"},
		{Tensor{Info{Name: "x", Type: Q8_0, Shape: []int{32}}, read(1e8)}, "beyond"},
		{Tensor{Info{Name: "x", Type: Q8_0, Shape: []int{32}}, read(nan)}, "beyond"},
	} {
		if err := Write(&memory{}, nil, []Tensor{c.t}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want an error with %q", c.t.Info, err, c.want)
		}
	}
	if err := Write(&memory{}, []KV{{"x", struct{}{}}}, nil); err == nil {
		t.Error("a struct was written")
	}
	if _, err := ParseType("q4_0"); err == nil || !strings.Contains(err.Error(), "q8_0") {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent file was opened")
	}
}

// Halves round away from 0, and a block of zeros has the scale 0.
func TestQ8(t *testing.T) {
	v := make([]float32, 64)
	v[0], v[1], v[2], v[3] = 127, 0.5, -0.5, 1.4
	b, ok := encode(nil, v, Q8_0)
	if !ok || len(b) != 68 || int8(b[2]) != 127 || int8(b[3]) != 1 || int8(b[4]) != -1 || int8(b[5]) != 1 {
		t.Errorf("%v, % x", ok, b)
	}
	if !bytes.Equal(b[34:], make([]byte, 34)) {
		t.Errorf("zeros are % x", b[34:])
	}
}

// A tensor after one of an unknown type is inside the file too.
func TestAfterUnknownType(t *testing.T) {
	var file memory
	zeros := func(_ int64, dst []float32) error { clear(dst); return nil }
	if err := Write(&file, nil, []Tensor{{Info{Name: "a", Type: F32, Shape: []int{8}}, zeros}, {Info{Name: "b", Type: F32, Shape: []int{8}}, zeros}}); err != nil {
		t.Fatal(err)
	}
	b := bytes.Replace(file.Bytes(), []byte(sumsKey), []byte("another.crc32c"), 1)
	info := func(name string) int { return bytes.Index(b, []byte("\x01\x00\x00\x00\x00\x00\x00\x00"+name)) + 8 + 1 }
	b[info("a")+4+8] = 99 // the type, after the number of dimensions and one size
	f, err := NewFile("x", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Read("b"); err != nil || len(v) != 8 {
		t.Errorf("%v, %v", v, err)
	}
	b[info("b")+4+3] = 0x7f // of the size
	if _, err := NewFile("x", bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), `"b" has`) {
		t.Error(err)
	}
}

// FuzzOpen reads files of strangers: an error or a file whose tensors can be read, within bounded memory.
func FuzzOpen(f *testing.F) {
	b, _, _ := written(f)
	f.Add(b)
	f.Add(b[:100])
	var small memory
	if err := Write(&small, []KV{{"a", []string{"b"}}, {"general.alignment", uint32(64)}}, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := NewFile("x", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, x := range g.Tensors() {
			v, err := g.Read(x.Name)
			if _, known := types[x.Type]; known && err == nil && int64(len(v)) != x.Elems() {
				t.Errorf("%v has %d values", x, len(v))
			}
		}
	})
}
