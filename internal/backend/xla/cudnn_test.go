package xla

import (
	"os"
	"strings"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/internal/backend/record"
	"trireme/internal/backend/xla/cudnn"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
	"trireme/tensor"
)

// attentionProgram is attention and its gradients, for N rows of heads in columns of one matrix.
func attentionProgram(t *testing.T, dt tensor.DType, rows, sequences int, p tensor.AttentionParams) *record.Program {
	t.Helper()
	b := record.New(naive.New())
	w, kw := p.Heads*p.E, p.KVHeads*p.E
	qkv, do, dqkv := b.New(tensor.Activations, dt, rows, w+2*kw), b.New(tensor.Activations, dt, rows, w), b.New(tensor.Activations, dt, rows, w+2*kw)
	rec, err := b.Record(false, func() error {
		p.Starts = b.New(tensor.Workspace, tensor.I32, sequences+1)
		b.Upload(p.Starts, make([]byte, p.Starts.Bytes()))
		o, lse := b.New(tensor.Activations, dt, rows, w), b.New(tensor.Activations, tensor.F32, p.Heads, rows)
		q, k, v := qkv.Cols(0, w), qkv.Cols(w, w+kw), qkv.Cols(w+kw, w+2*kw)
		b.Attention(o, lse, q, k, v, nil, p)
		b.AttentionBackward(dqkv.Cols(0, w), dqkv.Cols(w, w+kw), dqkv.Cols(w+kw, w+2*kw), do, o, lse, q, k, v, nil, p)
		for _, x := range []*tensor.Tensor{p.Starts, o, lse} {
			x.Release()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec.Program
}

// TestAttentionCalls checks which attention is cuDNN's, and compiles it for an H200 without a card
// where the plug-in is installed.
func TestAttentionCalls(t *testing.T) {
	p := tensor.AttentionParams{MaxSeqLen: 256, Heads: 8, KVHeads: 2, E: 64, Scale: 0.125, Causal: true}
	full, window := p, p
	full.SeqLen, window.Window = 256, 32
	for name, c := range map[string]struct {
		tensor.AttentionParams
		tensor.DType
		device *cudnn.Device
		calls  int
	}{
		"packed":               {p, tensor.BF16, &cudnn.Device{Major: 9}, 2},
		"packed with a window": {window, tensor.BF16, &cudnn.Device{Major: 9}, 2},
		"full":                 {full, tensor.BF16, &cudnn.Device{Major: 9}, 2},
		"padded":               {p, tensor.F16, &cudnn.Device{Major: 8}, 2},
		"float32":              {p, tensor.F32, &cudnn.Device{Major: 9}, 0},
		"no GPU":               {full, tensor.BF16, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			to := newTarget("cuda")
			if c.device != nil {
				to = to.withCuDNN(*c.device, nil)
			}
			m, err := emit(attentionProgram(t, c.DType, 1024, 4, c.AttentionParams), to, nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			if calls := strings.Count(m.text, "call_target_name"); calls != c.calls {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
			if os.Getenv("PJRTTEST_CUDA") == "" || c.device == nil {
				return
			}
			file, dir := pjrttest.CUDA(t)
			plugin, err := pjrt.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			h200, err := FindTarget("h200")
			if err != nil {
				t.Fatal(err)
			}
			topology, err := plugin.NewTopology([]pjrt.Option{{Name: "target_config", Value: h200.Config}, {Name: "topology", Value: "1x1x1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer topology.Close()
			e, err := topology.Compile(m.text, pjrt.CompileOptions{Flags: []pjrt.Flag{{Name: "xla_gpu_cuda_data_dir", Value: dir}}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if compiled, err := e.Text(); err != nil || strings.Contains(compiled, "__cudnn$fmhaSoftmaxBackward") != (c.calls > 0) {
				t.Errorf("calls of cuDNN after optimization: %v, want %v (%v)", c.calls == 0, c.calls > 0, err)
			}
		})
	}
}
