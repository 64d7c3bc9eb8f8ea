package torchfile

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"trireme/checkpoint/safetensors"
	"trireme/internal/pickle"
	"trireme/tensor"
)

// fixtures are written by PyTorch; see their README.
const fixtures = "../convert/testdata/"

// TestWrite reads what Write writes.
func TestWrite(t *testing.T) {
	for _, c := range []struct {
		dt    safetensors.Type
		shape tensor.Shape
	}{{"F32", tensor.Shape{2, 3}}, {"BF16", tensor.Shape{5}}, {"I64", tensor.Shape{}}, {"F16", tensor.Shape{0, 4}}} {
		want := make([]byte, c.shape.Elems()*c.dt.Size())
		for i := range want {
			want[i] = byte(i + 1)
		}
		f := parse(t, written(t, c.dt, c.shape, want))
		got := f.Value().(*Tensor)
		b := make([]byte, len(want))
		if err := got.ReadRange(0, got.Elems(), b); err != nil || got.Type != c.dt || !got.Shape.Equal(c.shape) || !bytes.Equal(b, want) {
			t.Errorf("%v, want %s%v: %v %x", got, c.dt, c.shape, err, b)
		}
	}
	if err := Write(io.Discard, "F8_E4M3", nil, nil); err == nil {
		t.Error("a type without a storage was written")
	}
}

func written(t *testing.T, dt safetensors.Type, shape tensor.Shape, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, dt, shape, content(data)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parse(t *testing.T, b []byte) *File {
	t.Helper()
	f, err := New("x.pt", bytes.NewReader(b), int64(len(b)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRanges: every range of contiguous, transposed and sliced tensors has the elements of the whole.
func TestRanges(t *testing.T) {
	data := make([]byte, 24*4)
	for i := range 24 {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(i))
	}
	s := parse(t, written(t, "I32", tensor.Shape{24}, data)).Value().(*Tensor).from
	for _, v := range []struct {
		shape, stride []int
		first         int
	}{
		{[]int{4, 6}, []int{6, 1}, 0}, {[]int{6, 4}, []int{1, 6}, 0}, {[]int{2, 3}, []int{6, 2}, 7}, {[]int{4, 2}, []int{6, 1}, 3},
		{[]int{2, 3, 4}, []int{12, 4, 1}, 0}, {[]int{1, 24}, []int{99, 1}, 0}, {[]int{3}, []int{-0}, 5}, {[]int{}, nil, 23}, {[]int{0, 5}, []int{5, 1}, 24},
	} {
		args := pickle.Tuple{s, int64(v.first), tuple(v.shape), tuple(v.stride), false, nil}
		x, err := rebuild(args, "")
		if err != nil {
			t.Fatal(v, err)
		}
		n := x.Elems()
		want := make([]uint32, n)
		for i := range want {
			rest, at := i, v.first
			for d := len(v.shape) - 1; d >= 0; d-- {
				at += rest % v.shape[d] * v.stride[d]
				rest /= v.shape[d]
			}
			want[i] = uint32(at)
		}
		for lo := 0; lo <= n; lo++ {
			for hi := lo; hi <= n; hi++ {
				b := make([]byte, 4*(hi-lo))
				if err := x.ReadRange(lo, hi-lo, b); err != nil {
					t.Fatal(err)
				}
				for i := lo; i < hi; i++ {
					if got := binary.LittleEndian.Uint32(b[4*(i-lo):]); got != want[i] {
						t.Fatalf("%v [%d,%d): element %d is %d, want %d", v, lo, hi, i, got, want[i])
					}
				}
			}
		}
		if x.ReadRange(0, n+1, make([]byte, 4*n+4)) == nil || x.ReadRange(-1, 1, make([]byte, 4)) == nil || x.ReadRange(0, n, make([]byte, 4*n+1)) == nil {
			t.Errorf("%v: a range outside was read", v)
		}
	}
}

func tuple(s []int) pickle.Tuple {
	t := pickle.Tuple{}
	for _, n := range s {
		t = append(t, int64(n))
	}
	return t
}

// TestOutside: views outside their storage, or larger, are refused.
func TestOutside(t *testing.T) {
	s := parse(t, written(t, "F32", tensor.Shape{10}, make([]byte, 40))).Value().(*Tensor).from
	for _, v := range []struct {
		first         int64
		shape, stride []int
	}{
		{0, []int{11}, []int{1}}, {5, []int{6}, []int{1}}, {-1, []int{1}, []int{1}}, {0, []int{2}, []int{10}}, {0, []int{20}, []int{0}},
		{0, []int{-1}, []int{1}}, {0, []int{2}, []int{-1}}, {math.MaxInt64, []int{1}, []int{1}}, {0, []int{1 << 40, 1 << 40}, []int{1, 1}},
		{0, []int{2, 2}, []int{math.MaxInt64, math.MaxInt64}}, {0, []int{3}, []int{1, 1}}, {11, []int{}, nil}, {10, []int{}, nil},
	} {
		if x, err := rebuild(pickle.Tuple{s, v.first, tuple(v.shape), tuple(v.stride), false, nil}, ""); err == nil {
			t.Errorf("%+v was accepted: %v", v, x)
		}
	}
}

func TestRefuse(t *testing.T) {
	for name, want := range map[string]string{
		fixtures + "legacy.pt":       "before PyTorch 1.6. try: python -c",
		fixtures + "evil.pt":         "it calls posix.system, which is not data. try:",
		fixtures + "README.md":       "is not a file of torch.save",
		fixtures:                     "is not a file",
		fixtures + "no-such-file.pt": "no such file",
	} {
		_, err := Open(name, Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, without %q", name, err, want)
		}
	}
}

// TestFlippedBits flips every bit of a file: the values are those of the file, or it is refused.
func TestFlippedBits(t *testing.T) {
	want := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	b := written(t, "F32", tensor.Shape{2}, want)
	saved := 0
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if f, err := New("x.pt", bytes.NewReader(b), int64(len(b)), Options{}); err == nil {
				if x, ok := f.Value().(*Tensor); ok && x.Elems() < 100 {
					got := make([]byte, x.Elems()*x.Type.Size())
					if x.ReadRange(0, x.Elems(), got) == nil {
						saved++
						if x.Type != "F32" || !x.Shape.Equal(tensor.Shape{2}) || !bytes.Equal(got, want) {
							t.Fatalf("bit %d of byte %d: %v %x", bit, i, x, got)
						}
					}
				}
			}
			b[i] ^= 1 << bit
		}
	}
	t.Logf("%d of %d flips left the values as they were (in times, versions and the like)", saved, 8*len(b))
	for n := range b { // truncated
		if f, err := New("x.pt", bytes.NewReader(b[:n]), int64(n), Options{}); err == nil {
			t.Fatalf("%d of %d bytes: %v", n, len(b), f.Value())
		}
	}
}

// FuzzFile opens any bytes and reads what they claim.
func FuzzFile(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, "F32", tensor.Shape{2}, content(make([]byte, 8))); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	for _, name := range []string{"plain.pt", "evil.pt", "legacy.pt", "float8.pt"} {
		b, err := os.ReadFile(fixtures + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := New("fuzz", bytes.NewReader(b), int64(len(b)), Options{})
		if err != nil {
			return
		}
		d, ok := file.Value().(*pickle.Dict)
		if !ok {
			return
		}
		for _, v := range d.Values {
			if x, ok := v.(*Tensor); ok {
				if n := x.Elems() * x.Type.Size(); n > len(b) {
					t.Fatalf("%v of a file of %d bytes", x, len(b))
				}
				_ = x.ReadRange(0, x.Elems(), make([]byte, x.Elems()*x.Type.Size()))
			}
		}
	})
}

// FuzzPickle decodes any data.pkl with storages.
func FuzzPickle(f *testing.F) {
	f.Add([]byte("\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQK\x00K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR."))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := &File{name: "fuzz", storages: map[string]*storage{"0": {elem: "FloatStorage", size: 40}}}
		v, _, err := pickle.Decode(b, pickle.Config{Persistent: file.persistent, Call: rebuilder(nil)})
		if x, ok := v.(*Tensor); err == nil && ok && x.Elems() > 40 {
			t.Fatalf("%v of a storage of 40 bytes", x)
		}
	})
}
