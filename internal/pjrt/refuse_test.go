package pjrt_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"trireme/internal/pjrt"
)

// refused checks that an error has one line and contains want.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("want %q, got %v", want, err)
	}
}

// The CPU plug-in ends the process if one of these options, numbers or texts reaches it.
func TestRefusals(t *testing.T) {
	c := client(t, 2)
	p, d := c.Plugin(), c.Devices()[0]
	for _, o := range []struct {
		option pjrt.Option
		want   string
	}{
		{pjrt.Option{Name: "cpu_device_count", Value: "2"}, "option cpu_device_count: want a value of type int64, got string"},
		{pjrt.Option{Name: "cpu_device_count", Value: 2}, "values of type int are not supported"},
		{pjrt.Option{Name: "cpu_device_count", Value: nil}, "values of type <nil> are not supported"},
		{pjrt.Option{Name: "x", Value: 0.5}, "values of type float64 are not supported"},
		{pjrt.Option{Name: "cpu_device_count", Value: int64(0)}, "has no devices"},
		{pjrt.Option{Name: "cpu_device_count", Value: int64(-1)}, "has no devices"},
	} {
		_, err := p.NewClient([]pjrt.Option{o.option}, nil)
		refused(t, err, o.want)
	}
	_, err := p.NewTopology([]pjrt.Option{{Name: "topology", Value: int64(8)}})
	refused(t, err, "option topology: want a value of type string, got int64")

	for _, o := range []struct {
		text    string
		options pjrt.CompileOptions
		want    string
	}{
		{"", pjrt.CompileOptions{}, "no text"},
		{matmul, pjrt.CompileOptions{Replicas: -1}, "-1 replicas"},
		{matmul, pjrt.CompileOptions{Replicas: 1 << 40}, "replicas"},
		{matmul, pjrt.CompileOptions{Replicas: 3}, "No matching device found for device_id 2"},
		{matmul, pjrt.CompileOptions{Replicas: 2, Devices: []int{1}}, "1 devices for 2 replicas"},
		{matmul, pjrt.CompileOptions{Devices: []int{}}, "0 devices for 1 replicas"},
		{matmul, pjrt.CompileOptions{Replicas: 2, Devices: []int{1, 1}}, "replicas 0 and 1 have device 1"},
		{matmul, pjrt.CompileOptions{Devices: []int{-1}}, "no device has the ID -1"},
		{matmul, pjrt.CompileOptions{Devices: []int{1 << 32}}, "no device has the ID 4294967296"},
		{matmul, pjrt.CompileOptions{Devices: []int{7}}, "device_id 7"},
		{matmul, pjrt.CompileOptions{Flags: []pjrt.Flag{{Name: "xla_dump_to", Value: 3}}}, "values of type int are not supported"},
		{matmul, pjrt.CompileOptions{Flags: []pjrt.Flag{{Name: "xla_\xff", Value: true}}}, "not UTF-8"},
		{matmul, pjrt.CompileOptions{Flags: []pjrt.Flag{{Name: "xla_dump_to", Value: "\xff"}}}, "not UTF-8"},
		{matmul, pjrt.CompileOptions{Flags: []pjrt.Flag{{Name: "xla_dump_to", Value: true}}}, "is not a valid string value"},
		{"not a module", pjrt.CompileOptions{}, "(code 2)"},
		{sum(2), pjrt.CompileOptions{}, ""}, // groups of replicas that do not exist: refused, or ignored for one replica
	} {
		if _, err := c.Compile(o.text, o.options); o.want != "" {
			refused(t, err, o.want)
		}
	}

	for _, u := range []struct {
		typ  pjrt.Type
		dims []int
		size int
		want string
	}{
		{pjrt.F32, []int{3}, 11, "tensor<3xf32> has 12 bytes, got 11"},
		{pjrt.F32, []int{-1}, 0, "dimension -1 is negative"},
		{pjrt.F32, []int{1 << 31, 1 << 31, 4}, 0, "too large"},
		{pjrt.Invalid, nil, 0, "arrays of type 0 are not supported"},
		{pjrt.Token, nil, 0, "not supported"},
		{pjrt.S4, []int{2}, 1, "not supported"},
		{pjrt.Type(1000), []int{2}, 8, "not supported"},
	} {
		_, err := d.Upload(u.typ, u.dims, make([]byte, u.size))
		refused(t, err, u.want)
	}
}

// A plug-in compares only the bytes of arguments.
func TestArguments(t *testing.T) {
	c := client(t, 2)
	d := c.Devices()[0]
	e := compile(t, c, matmul, pjrt.CompileOptions{Params: matmulParams})
	a, b, x := upload(t, d, []int{2, 3}, 1, 2, 3, 4, 5, 6), upload(t, d, []int{3, 2}, 1, 2, 3, 4, 5, 6), upload(t, d, []int{2, 2}, 1, 2, 3, 4)
	ints, err := d.Upload(pjrt.S32, []int{2, 2}, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	defer ints.Close()
	closed, elsewhere := upload(t, d, []int{2, 2}, 1, 2, 3, 4), upload(t, c.Devices()[1], []int{2, 2}, 1, 2, 3, 4)
	closed.Close()
	other := client(t, 1)
	alien := upload(t, other.Devices()[0], []int{2, 2}, 1, 2, 3, 4)
	for _, v := range []struct {
		device *pjrt.Device
		args   []*pjrt.Buffer
		keep   []int
		want   string
	}{
		{d, nil, nil, "has 3 arguments, got 0"},
		{d, []*pjrt.Buffer{a, b}, nil, "has 3 arguments, got 2"},
		{d, []*pjrt.Buffer{a, b, nil}, nil, "argument 2 is nil"},
		{d, []*pjrt.Buffer{b, b, x}, nil, "argument 0 is tensor<3x2xf32>, the program has tensor<2x3xf32>"},
		{d, []*pjrt.Buffer{a, b, ints}, nil, "argument 2 is tensor<2x2xi32>, the program has tensor<2x2xf32>"},
		{d, []*pjrt.Buffer{a, b, closed}, nil, "argument 2: already closed"},
		{d, []*pjrt.Buffer{a, b, alien}, nil, "argument 2 belongs to another client"},
		{d, []*pjrt.Buffer{a, b, elsewhere}, nil, "is on device"},
		{d, []*pjrt.Buffer{a, b, x}, []int{3}, "argument 3 cannot be kept"},
		{d, []*pjrt.Buffer{a, b, x}, []int{-1}, "argument -1 cannot be kept"},
		{c.Devices()[1], []*pjrt.Buffer{a, b, x}, nil, "device"},
		{other.Devices()[0], []*pjrt.Buffer{a, b, x}, nil, "the device belongs to another client"},
	} {
		_, _, err := e.Execute(v.device, v.args, v.keep)
		refused(t, err, v.want)
	}
	if x.Deleted() {
		t.Error("an execution that was refused donated its argument")
	}
	refused(t, a.Download(make([]byte, 23)), "tensor<2x3xf32> has 24 bytes, the destination 23")
	// A buffer donated to one argument cannot be another.
	twice := compile(t, c, `module { func.func public @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2xf32>) -> tensor<2xf32> {
  %e = "stablehlo.add"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  "func.return"(%e) : (tensor<2xf32>) -> () } }`, pjrt.CompileOptions{})
	y := upload(t, d, []int{2}, 1, 2)
	_, _, err = twice.Execute(d, []*pjrt.Buffer{y, y}, nil)
	refused(t, err, "previously donated in the same call")
	if got := download(t, execute(t, e, d, a, b, x)[0]); len(got) != 4 {
		t.Error("no execution after refusals:", got)
	}
}

// Everything returns ErrClosed after Close.
func TestClosed(t *testing.T) {
	c := client(t, 1)
	d := c.Devices()[0]
	e := compile(t, c, matmul, pjrt.CompileOptions{})
	b := upload(t, d, []int{1}, 1)
	done, err := b.DownloadAsync(make([]byte, 4))
	if err != nil {
		t.Fatal(err)
	}
	serialized, err := e.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e.Close()
		b.Close()
		done.Close()
		c.Close()
	}
	if n := c.Live(); n != 0 {
		t.Errorf("%d objects are open", n)
	}
	_, executeErr := func() (any, error) { _, _, err := e.Execute(d, nil, nil); return nil, err }()
	_, compileErr := c.Compile(matmul, pjrt.CompileOptions{})
	_, deserializeErr := c.Deserialize(serialized, pjrt.CompileOptions{})
	_, serializeErr := e.Serialize()
	_, textErr := e.Text()
	_, memoryErr := e.Memory()
	_, deviceErr := d.Memory()
	_, uploadErr := d.Upload(pjrt.F32, nil, make([]byte, 4))
	_, readyErr := done.Ready()
	for i, err := range []error{executeErr, compileErr, deserializeErr, serializeErr, textErr, memoryErr, deviceErr, uploadErr, readyErr, done.Await(), b.Download(make([]byte, 4))} {
		if !errors.Is(err, pjrt.ErrClosed) {
			t.Error(i, err)
		}
	}
	if !b.Deleted() {
		t.Error("a closed buffer is not deleted")
	}
}

// The client's end waits for its objects.
func TestCloseClientFirst(t *testing.T) {
	c := client(t, 1)
	b := upload(t, c.Devices()[0], []int{2}, 3, 4)
	c.Close()
	if got := download(t, b); !slices.Equal(got, []float32{3, 4}) {
		t.Error(got)
	}
	b.Close()
	if n := c.Live(); n != 0 {
		t.Errorf("%d objects are open", n)
	}
}
