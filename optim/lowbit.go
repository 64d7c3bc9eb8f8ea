package optim

import "trireme/tensor"

// LowBit is an element-wise optimizer with low-bit state. Updates compute in float32 and use the
// state before rounding.
type LowBit struct {
	Elementwise
	// StateDType is BF16, or U8: one byte of tensor.DynamicMap per element and one float32 scale
	// per tensor.StateBlock elements, as in bitsandbytes.
	StateDType tensor.DType
	// MinSize is the number of elements below which a parameter's state stays float32.
	MinSize int
}

// Name appends _bf16 or _8bit to the optimizer's.
func (o LowBit) Name() string {
	if o.StateDType == tensor.U8 {
		return o.Elementwise.Name() + "_8bit"
	}
	return o.Elementwise.Name() + "_bf16"
}

// Slots are the optimizer's and, with U8, their scales.
func (o LowBit) Slots() []Slot {
	all := o.Elementwise.Slots()
	for i, s := range all {
		if all[i].DType = o.StateDType; o.StateDType == tensor.U8 {
			all = append(all, Slot{Name: s.Name + "_absmax", DType: tensor.F32, Block: tensor.StateBlock})
		}
	}
	return all
}

func (o LowBit) For(p Param) Optimizer {
	if p.Shape.Elems() < o.MinSize {
		return o.Elementwise
	}
	return o
}
