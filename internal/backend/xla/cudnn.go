package xla

import (
	"fmt"
	"slices"

	"trireme/internal/backend/xla/cudnn"
	"trireme/internal/pjrt"
	"trireme/tensor"
)

// CallCuDNN lets programs call cuDNN for attention, on devices like d. It must precede the first
// program.
func (c *Client) CallCuDNN(d cudnn.Device) { c.target = c.target.withCuDNN(d, c.flags) }

func (t target) withCuDNN(d cudnn.Device, flags []pjrt.Flag) target {
	t.gpu = &d
	for _, f := range append(slices.Clone(flags), Flags(t.platform)...) {
		if f.Name == "xla_gpu_exclude_nondeterministic_ops" || f.Name == "xla_gpu_deterministic_ops" {
			t.deterministic = t.deterministic || f.Value == true
		}
	}
	return t
}

// cudnn are operations that call cuDNN; ok is false if the target has none.
func (e *emitter) cudnn() (ops cudnn.Ops, ok bool) {
	if e.target.gpu == nil {
		return ops, false
	}
	return cudnn.NewOps(e, *e.target.gpu, e.target.deterministic), true
}

// Call writes a custom call.
func (e *emitter) Call(c cudnn.Call, results, operands []*tensor.Tensor) {
	var in, out []value
	for i, t := range operands {
		in = append(in, e.reshape(e.load(t), c.Operands[i].Shape...))
	}
	for _, t := range c.Results {
		out = append(out, e.fresh(elems[t.DType], t.Shape))
	}
	e.line(out, "stablehlo.custom_call", fmt.Sprintf("call_target_name = %q, %s", c.Target, c.Attributes()), in, "")
	for i, t := range results {
		order := make([]int, len(c.Results[i].Layout)) // major to minor
		for j, d := range c.Results[i].Layout {
			order[len(order)-1-j] = d
		}
		e.store(t, e.transpose(out[i], order...))
	}
}
