package xla_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"trireme/internal/backend/backendtest"
	"trireme/internal/backend/xla"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
	"trireme/tensor"
)

// inputs allocates tensors that a program reads.
func inputs(b tensor.Backend, dt tensor.DType, shapes ...[]int) (ts []*tensor.Tensor) {
	for _, s := range shapes {
		x := b.New(tensor.Activations, dt, s...)
		b.Upload(x, make([]byte, x.Bytes()))
		ts = append(ts, x)
	}
	return ts
}

// A product of float32 and bfloat16, as of the gradient of logits, is one of bfloat16 on a GPU.
func TestMixedProduct(t *testing.T) {
	for platform, want := range map[string]string{"cuda": "bf16", "cpu": "f32"} {
		text := xla.Text(t, platform, func(b tensor.Backend) {
			x, w := inputs(b, tensor.F32, []int{3, 5})[0], inputs(b, tensor.BF16, []int{5, 7})[0]
			y := b.New(tensor.Activations, tensor.F32, 3, 7)
			b.MatMul(y, x, w, tensor.MatMulOp{})
			tensor.DownloadAsync(b, y)
			release(x, w, y)
		})
		if types := fmt.Sprintf("(tensor<3x5x%[1]s>, tensor<5x7x%[1]s>) -> tensor<3x7xf32>", want); !strings.Contains(text, types) {
			t.Errorf("%s: no product of %s in\n%s", platform, types, text)
		}
	}
}

func release(ts ...*tensor.Tensor) {
	for _, x := range ts {
		x.Release()
	}
}

// Rows are added at their ids in the form of deterministic programs too.
func TestDeterministicScatter(t *testing.T) {
	oneGoroutine(t)
	b := open(t, 1)[0]
	b.SetDeterministic(true)
	o := programs(t, b)
	o.Only = "scatter add"
	var suite backendtest.Suite
	suite.Run(t, b, o)
}

// The gradient of an embedding compiles for a GPU with deterministic operations only, and the compiler sorts
// ids, but no elements of rows.
func TestEmbeddingGradient(t *testing.T) {
	file, dir := pjrttest.CUDA(t)
	text := xla.Text(t, "cuda", func(b tensor.Backend) {
		dy, ids := inputs(b, tensor.BF16, []int{4096, 512})[0], inputs(b, tensor.I32, []int{4096})[0]
		dw := b.New(tensor.Activations, tensor.F32, 32000, 512)
		b.ScatterAdd(dw, dy, ids, tensor.NoPadding, false)
		tensor.DownloadAsync(b, dw)
		release(dy, ids, dw)
	})
	plugin, err := pjrt.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	h200, err := xla.FindTarget("h200")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := plugin.NewTopology([]pjrt.Option{{Name: "target_config", Value: h200.Config}, {Name: "topology", Value: "1x1x1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer topology.Close()
	e, err := topology.Compile(text, pjrt.CompileOptions{Flags: []pjrt.Flag{
		{Name: "xla_gpu_cuda_data_dir", Value: dir}, {Name: "xla_gpu_exclude_nondeterministic_ops", Value: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const result, sorted = 32000 * 512 * 4, 4096 * 512 * 4
	if m, err := e.Memory(); err != nil || m.Temp > 2*result+16*sorted {
		t.Errorf("%d bytes of temporary memory for a result of %d (%v)", m.Temp, result, err)
	}
	optimized, err := e.Text()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`\x12\x04sort`).FindAllString(optimized, -1)); n != 1 {
		t.Errorf("%d sorts", n)
	}
}
