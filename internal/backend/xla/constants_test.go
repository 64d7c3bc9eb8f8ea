package xla_test

import (
	"regexp"
	"strings"
	"testing"

	"trireme/internal/backend/xla"
	"trireme/tensor"
)

// The tables of 8-bit state are one constant each, of up to 256 elements (1 KB).
func TestConstantsAreSmall(t *testing.T) {
	text := xla.Text(t, "cuda", func(b tensor.Backend) {
		const n = 4 * tensor.StateBlock
		p := inputs(b, tensor.F32, []int{n}, []int{n}, []int{4}, []int{4})
		codes := inputs(b, tensor.U8, []int{n}, []int{n})
		ends := inputs(b, tensor.I64, []int{1})
		hyper := inputs(b, tensor.F64, []int{1, 4}, []int{tensor.ScalarCount})
		b.Update(tensor.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}, p[0], append(codes, p[2], p[3]), p[1], ends[0], hyper[0], hyper[1])
		tensor.DownloadAsync(b, p[0])
		for _, ts := range [][]*tensor.Tensor{p, codes, ends, hyper} {
			release(ts...)
		}
	})
	tables := 0
	for _, list := range regexp.MustCompile(`dense<\[([^\]]*)\]>`).FindAllStringSubmatch(text, -1) {
		n := strings.Count(list[1], ",") + 1
		if n > 256 {
			t.Errorf("a constant of %d elements", n)
		}
		if n >= 255 {
			tables++
		}
	}
	if tables != 4 { // values and midpoints of two maps
		t.Errorf("%d tables, want 4", tables)
	}
}

// A constant has the value of its type where a program converts it to another one.
func TestConstantsAreRounded(t *testing.T) {
	b := open(t, 1)[0]
	for _, dt := range []tensor.DType{tensor.F16, tensor.BF16, tensor.F32, tensor.I32, tensor.U8} {
		for _, v := range []float64{0.1, 2.75, 1e-6} {
			value := func(in func(func() error) error) float64 {
				wide := b.New(tensor.Activations, tensor.F64, 1)
				defer wide.Release()
				err := in(func() error {
					x := b.New(tensor.Activations, dt, 1)
					b.Fill(x, v)
					b.Copy(wide, x)
					x.Release()
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return tensor.FromBytes[float64](tensor.DownloadAsync(b, wide)())[0]
			}
			host := value(func(f func() error) error { return f() })
			if got := value(func(f func() error) error { return b.Compile(false, f) }); got != host {
				t.Errorf("%v of %v: %v, want %v", v, dt, got, host)
			}
		}
	}
}
