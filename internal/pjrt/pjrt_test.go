package pjrt_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
)

// client starts the CPU plug-in with n devices.
func client(t testing.TB, n int) *pjrt.Client {
	t.Helper()
	p, err := pjrt.Load(pjrttest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.NewClient([]pjrt.Option{{Name: "cpu_device_count", Value: int64(n)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func compile(t testing.TB, c *pjrt.Client, text string, o pjrt.CompileOptions) *pjrt.Executable {
	t.Helper()
	e, err := c.Compile(text, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func encode(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func decode(b []byte) []float32 {
	var v []float32
	for ; len(b) > 0; b = b[4:] {
		v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return v
}

func upload(t testing.TB, d *pjrt.Device, dims []int, v ...float32) *pjrt.Buffer {
	t.Helper()
	b, err := d.Upload(pjrt.F32, dims, encode(v...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func download(t testing.TB, b *pjrt.Buffer) []float32 {
	t.Helper()
	out := make([]byte, b.Size())
	if err := b.Download(out); err != nil {
		t.Fatal(err)
	}
	return decode(out)
}

func execute(t testing.TB, e *pjrt.Executable, d *pjrt.Device, args ...*pjrt.Buffer) []*pjrt.Buffer {
	t.Helper()
	out, done, err := e.Execute(d, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer done.Close()
	if err := done.Await(); err != nil {
		t.Fatal(err)
	}
	for _, b := range out {
		t.Cleanup(b.Close)
	}
	return out
}

// matmul is a@b + c; c is donated to the result.
const matmul = `module {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>, %c: tensor<2x2xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<2x2xf32>, tensor<3xi32>) {
    %d = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %e = "stablehlo.add"(%d, %c) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %f = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<3xi32>
    "func.return"(%e, %f) : (tensor<2x2xf32>, tensor<3xi32>) -> ()
  }
}`

var matmulParams = []pjrt.Param{{Type: pjrt.F32, Dims: []int{2, 3}}, {Type: pjrt.F32, Dims: []int{3, 2}}, {Type: pjrt.F32, Dims: []int{2, 2}}}

// sum adds the arguments of all replicas.
func sum(replicas int) string {
	var ids []string
	for i := range replicas {
		ids = append(ids, fmt.Sprint(i))
	}
	return fmt.Sprintf(`module attributes {mhlo.num_replicas = %d : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%%x: tensor<4xf32>) -> tensor<4xf32> {
    %%y = "stablehlo.all_reduce"(%%x) ({
    ^bb0(%%a: tensor<f32>, %%b: tensor<f32>):
      %%c = "stablehlo.add"(%%a, %%b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%%c) : (tensor<f32>) -> ()
    }) {replica_groups = dense<[[%s]]> : tensor<1x%dxi64>} : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%%y) : (tensor<4xf32>) -> ()
  }
}`, replicas, strings.Join(ids, ", "), replicas)
}

func TestClient(t *testing.T) {
	c := client(t, 3)
	if c.Platform() != "cpu" || c.PlatformVersion() == "" || c.ProcessIndex() != 0 || len(c.Devices()) != 3 {
		t.Errorf("%s %s, process %d, %d devices", c.Platform(), c.PlatformVersion(), c.ProcessIndex(), len(c.Devices()))
	}
	for i, d := range c.Devices() {
		if d.ID() != i || d.Kind() != "cpu" {
			t.Errorf("device %d: %d %q", i, d.ID(), d.Kind())
		}
		var e *pjrt.Error
		if _, err := d.Memory(); !errors.As(err, &e) || e.Code != pjrt.CodeUnimplemented {
			t.Error(err)
		}
	}
	attributes, err := c.Plugin().Attributes()
	if v, ok := attributes["stablehlo_current_version"].([]int64); err != nil || !ok || len(v) != 3 {
		t.Error(attributes, err)
	}
	if major, minor := c.Plugin().Version(); major != 0 || minor < 81 {
		t.Error(major, minor)
	}
}

func TestExecute(t *testing.T) {
	c := client(t, 1)
	d := c.Devices()[0]
	e := compile(t, c, matmul, pjrt.CompileOptions{Params: matmulParams})
	if fmt.Sprint(e.Outputs()) != "[tensor<2x2xf32> tensor<3xi32>]" {
		t.Error(e.Outputs())
	}
	a := upload(t, d, []int{2, 3}, 1, 2, 3, 4, 5, 6)
	b := upload(t, d, []int{3, 2}, 1, 0, 0, 1, 1, 1)
	x := upload(t, d, []int{2, 2}, 10, 20, 30, 40)
	out := execute(t, e, d, a, b, x)
	if got := download(t, out[0]); !slices.Equal(got, []float32{14, 25, 40, 51}) {
		t.Error(got)
	}
	if out[1].Type() != pjrt.S32 || !slices.Equal(out[1].Dims(), []int{3}) || out[1].Size() != 12 {
		t.Error(out[1].Type(), out[1].Dims())
	}
	if !x.Deleted() || a.Deleted() || out[0].Deleted() {
		t.Error("donation: want the third argument deleted")
	}
	// The result takes the donated argument's part.
	out2 := execute(t, e, d, a, b, out[0])
	if got := download(t, out2[0]); !slices.Equal(got, []float32{18, 30, 50, 62}) {
		t.Error(got)
	}
	if _, _, err := e.Execute(d, []*pjrt.Buffer{a, b, x}, nil); err == nil || !strings.Contains(err.Error(), "deleted or donated") {
		t.Error(err)
	}
	// keep suppresses the donation.
	out, done, err := e.Execute(d, []*pjrt.Buffer{a, b, out2[0]}, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	done.Close()
	if out2[0].Deleted() {
		t.Error("kept argument deleted")
	}
	if got := download(t, out[0]); !slices.Equal(got, []float32{22, 35, 60, 73}) {
		t.Error(got)
	}
	for _, b := range out {
		b.Close()
		b.Close()
	}
}

func TestReplicas(t *testing.T) {
	const n = 8
	c := client(t, n)
	e := compile(t, c, sum(n), pjrt.CompileOptions{Replicas: n})
	var wg sync.WaitGroup
	for r, d := range c.Devices() {
		wg.Go(func() {
			x, err := d.Upload(pjrt.F32, []int{4}, encode(float32(r), 1, 2, 3))
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			for range 100 {
				out, done, err := e.Execute(d, []*pjrt.Buffer{x}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				got := make([]byte, 16)
				if err := out[0].Download(got); err != nil {
					t.Error(err)
				}
				if !slices.Equal(decode(got), []float32{28, 8, 16, 24}) {
					t.Error(r, decode(got))
				}
				out[0].Close()
				done.Close()
			}
		})
	}
	wg.Wait()
}
