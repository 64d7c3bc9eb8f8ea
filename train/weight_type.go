package train

import (
	"fmt"
	"slices"

	"trireme/device"
	"trireme/fault"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// WeightType says how a loaded model keeps its weights.
type WeightType string

const (
	Float32  WeightType = "float32"
	BFloat16 WeightType = "bfloat16" // and activations and the KV cache
	// Int8 keeps matrices of linear layers and the head in 8 bits with a scale per tensor.QuantBlock weights of a row
	// (tensor.Quantize), and the rest as BFloat16 does. It needs device.CPU.
	Int8 WeightType = "int8"
)

// Choices lists the types.
func (w WeightType) Choices() []string {
	return []string{string(Float32), string(BFloat16), string(Int8)}
}

// check returns an error for an unknown type, or one that a device lacks.
func (w WeightType) check(d device.Name) error {
	if !slices.Contains(w.Choices(), string(w)) {
		return fmt.Errorf("train: weights cannot be kept as %q", string(w))
	}
	if w == Int8 && d != device.CPU {
		return fault.Try(fmt.Errorf("train: int8 weights need the device cpu, not %s", d), "bfloat16 weights")
	}
	return nil
}

// Bytes is the size of n weights of matrices.
func (w WeightType) Bytes(n int64) int64 {
	switch w {
	case Int8:
		return n + n/tensor.QuantBlock*int64(tensor.F32.Size())
	default:
		return n * int64(w.activations().Size())
	}
}

// activations returns the type of activations and of parameters that are not quantized.
func (w WeightType) activations() tensor.DType {
	if w == Float32 {
		return tensor.F32
	}
	return tensor.BF16
}

// apply prepares the parameters of a model without memory for inference.
func (w WeightType) apply(m model.Model, c *model.Config) error {
	quantized := false
	for _, p := range model.Params(m) {
		p.Frozen = true
		p.Quantized = w == Int8 && p.Quantizable
		quantized = quantized || p.Quantized
	}
	if w == Int8 && !quantized {
		return fault.Try(fmt.Errorf("train: int8 weights are not supported for %s, whose matrices are transposed", c.Family.Name), "bfloat16 weights")
	}
	return nil
}

// quantizedElems is the number of elements that are quantized at once: they fit into the L2 cache.
const quantizedElems = 1 << 16

// quantize loads quantized parameters, some rows at a time. read sets dst (F32) to rows of p from row on.
func (l *LoadedModel) quantize(read func(p *nn.Param, row int, dst *tensor.Tensor) error) error {
	for _, p := range model.Params(l.Model) {
		if !p.Quantized {
			continue
		}
		rows, width := p.Shape[0], p.Shape[1]
		p.Value, p.Scales = l.Backend.New(tensor.Params, tensor.U8, rows, width), l.Backend.New(tensor.Params, tensor.F32, rows, tensor.QuantBlocks(width))
		some := min(rows, max(1, quantizedElems/width))
		x := l.Backend.New(tensor.Workspace, tensor.F32, some, width)
		for row := 0; row < rows; row += some {
			hi := min(rows, row+some)
			from := x.RowRange(0, hi-row)
			if err := read(p, row, from); err != nil {
				x.Release()
				return err
			}
			tensor.Quantize(tensor.Host[uint8](p.Value.RowRange(row, hi)), tensor.Host[float32](p.Scales.RowRange(row, hi)), tensor.Host[float32](from), width)
		}
		x.Release()
	}
	return nil
}
