package cudnn

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"trireme/tensor"
)

// Call is a custom call with API version 2. Its last result is a workspace without use to the caller.
type Call struct {
	Target            string
	Config            string // backend_config: JSON
	Operands, Results []Type
}

// Type is the type of an operand or result.
type Type struct {
	DType  tensor.DType
	Shape  tensor.Shape
	Layout []int // dimensions, minor to major
}

// String is the type in StableHLO.
func (t Type) String() string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, d := range t.Shape {
		fmt.Fprintf(&b, "%dx", d)
	}
	return b.String() + elements[t.DType] + ">"
}

var elements = map[tensor.DType]string{tensor.BF16: "bf16", tensor.F16: "f16", tensor.F32: "f32", tensor.I32: "i32", tensor.U8: "ui8"}

// Forward returns the call for attention on a device that Supported accepts:
//
//	o, [statistics], _ = Forward(q, k, v, [lengths, lengths, [offsets, kvOffsets]])
//
// q is [B T H E], k and v are [B T K E]. o is [B H T E] with layout {3,1,2,0}: a transpose to [B T H
// E] is free. statistics is F32 [B*M H T], the log-sum-exp of row i of a segment at i.
//
// With Padded, lengths is I32 [B], the rows of each sequence. With Packed, lengths is I32 [B M], the
// rows of each of B*M segments, 0 for those after the last; offsets and kvOffsets are I32 [B M+1],
// the first element of each segment in q and in k (its row times H*E and times K*E), and N times
// that after the last.
func Forward(a Attention, d Device) Call {
	c := a.call(d, false)
	bnth := a.heads(d, a.Heads)
	c.Results = append(c.Results, bnth)
	if a.Statistics {
		c.Results = append(c.Results, a.statistics(d))
	}
	c.Results = append(c.Results, workspace())
	c.Operands = append(c.Operands, a.rows(d, a.Heads), a.rows(d, a.KVHeads), a.rows(d, a.KVHeads))
	c.Operands = append(c.Operands, a.bounds(d)...)
	return c
}

// Backward returns the call for the gradients:
//
//	dq, dk, dv, _ = Backward(q, k, v, statistics, do, o, [lengths, lengths, [offsets, kvOffsets]])
//
// do and o are [B T H E]. dq is like o of Forward; so are dk and dv, with K heads.
func Backward(a Attention, d Device) Call {
	c := a.call(d, true)
	q, kv := a.rows(d, a.Heads), a.rows(d, a.KVHeads)
	c.Operands = append([]Type{q, kv, kv, a.statistics(d), q, q}, a.bounds(d)...)
	c.Results = []Type{a.heads(d, a.Heads), a.heads(d, a.KVHeads), a.heads(d, a.KVHeads), workspace()}
	return c
}

func (a Attention) rows(d Device, heads int) Type {
	s := a.Shape(d)
	return rowMajor(a.DType, s.B, s.T, heads, a.E)
}

func (a Attention) heads(d Device, heads int) Type {
	s := a.Shape(d)
	return Type{a.DType, tensor.Shape{s.B, heads, s.T, a.E}, []int{3, 1, 2, 0}}
}

func (a Attention) statistics(d Device) Type {
	s := a.Shape(d)
	return rowMajor(tensor.F32, s.B*s.M, a.Heads, s.T)
}

func (a Attention) bounds(d Device) []Type {
	switch s := a.Shape(d); s.Form {
	case Padded:
		lengths := rowMajor(tensor.I32, s.B)
		return []Type{lengths, lengths}
	case Packed:
		lengths, offsets := rowMajor(tensor.I32, s.B, s.M), rowMajor(tensor.I32, s.B, s.M+1)
		return []Type{lengths, lengths, offsets, offsets}
	}
	return nil
}

func workspace() Type { return rowMajor(tensor.U8, 0) }

func rowMajor(dt tensor.DType, shape ...int) Type {
	t := Type{DType: dt, Shape: shape}
	for i := len(shape) - 1; i >= 0; i-- {
		t.Layout = append(t.Layout, i)
	}
	return t
}

// call returns the target and configuration.
func (a Attention) call(d Device, backward bool) Call {
	s := a.Shape(d)
	mask := "NO_MASK"
	switch padded := s.Form != Full; {
	case padded && a.Causal:
		mask = "PADDING_CAUSAL"
	case padded:
		mask = "PADDING"
	case a.Causal:
		mask = "CAUSAL"
	}
	fmha := map[string]any{
		"algorithm": map[string]any{
			"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": map[string]string{"17": "1", "24": "0"},
			"is_cudnn_frontend": true, "workspace_size": "0",
		},
		"fmha_scale": a.Scale,
		"intermediate_tensor_shape": map[string]any{
			"element_type": strings.ToUpper(elements[a.DType]), "dimensions": texts(s.B, a.Heads, s.T, s.T), "tuple_shapes": []int{},
			"layout": map[string]any{
				"dim_level_types": []int{}, "dim_unique": []int{}, "dim_ordered": []int{}, "minor_to_major": texts(3, 2, 1, 0),
				"tiles": []int{}, "element_size_in_bits": "0", "memory_space": "0", "index_primitive_type": "PRIMITIVE_TYPE_INVALID",
				"pointer_primitive_type": "PRIMITIVE_TYPE_INVALID", "dynamic_shape_metadata_prefix_bytes": "0",
			},
			"is_dynamic_dimension": make([]bool, 4),
		},
		"is_flash_attention": true, "mask_type": mask,
		"dropout_rate": 0.0, "seed": 42, "sliding_window_length": a.Window, "max_seg_per_batch": s.M, "is_paged_attention": false,
	}
	target, products := "__cudnn$fmhaSoftmax", forwardProducts
	if backward {
		target, products = "__cudnn$fmhaSoftmaxBackward", backwardProducts
		if a.Deterministic {
			// XLA would set it in the first of several equal calls only, and find no code for the others.
			fmha["force_deterministic"] = true
		}
	}
	for name, p := range products {
		fmha[name+"_dot_dimension_numbers"] = map[string]any{
			"lhs_contracting_dimensions": texts(p.contract[0]), "rhs_contracting_dimensions": texts(p.contract[1]),
			"lhs_batch_dimensions": texts(0, p.head[0]), "rhs_batch_dimensions": texts(0, p.head[1]),
		}
	}
	text, err := json.Marshal(map[string]any{"operation_queue_id": "0", "cudnn_fmha_backend_config": fmha})
	if err != nil {
		panic(fmt.Sprintf("cudnn: %v", err)) // the scale is NaN or infinite
	}
	return Call{Target: target, Config: string(text)}
}

// product has the dimensions of two operands that are contracted, and that are heads. q, k, v, o
// are [B T H E], scores [B H T T].
type product struct{ contract, head [2]int }

var (
	forwardProducts = map[string]product{
		"bmm1": {[2]int{3, 3}, [2]int{2, 2}}, // scores = q k
		"bmm2": {[2]int{3, 1}, [2]int{1, 2}}, // o = scores v
	}
	backwardProducts = map[string]product{
		"bmm1_grad_gemm1": {[2]int{2, 1}, [2]int{1, 2}}, // dk = dscores q
		"bmm1_grad_gemm2": {[2]int{3, 1}, [2]int{1, 2}}, // dq = dscores k
		"bmm2_grad_gemm1": {[2]int{2, 1}, [2]int{1, 2}}, // dv = scores do
		"bmm2_grad_gemm2": {[2]int{3, 3}, [2]int{2, 2}}, // dscores = do v
	}
)

func texts(ns ...int) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = strconv.Itoa(n)
	}
	return out
}

// Text is the operation in StableHLO's generic form, with names such as %7. Result i is NAME#i.
func (c Call) Text(name string, operands ...string) string {
	return fmt.Sprintf("%s:%d = \"stablehlo.custom_call\"(%s) {call_target_name = %q, %s} : %s",
		name, len(c.Results), strings.Join(operands, ", "), c.Target, c.Attributes(), c.Signature())
}

// Attributes are the operation's attributes but for the target.
func (c Call) Attributes() string {
	return fmt.Sprintf("api_version = 2 : i32, backend_config = \"%s\", operand_layouts = %s, result_layouts = %s",
		strings.ReplaceAll(c.Config, `"`, `\22`), layouts(c.Operands), layouts(c.Results))
}

// Signature is the operation's type.
func (c Call) Signature() string { return types(c.Operands) + " -> " + types(c.Results) }

func types(ts []Type) string {
	var names []string
	for _, t := range ts {
		names = append(names, t.String())
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func layouts(ts []Type) string {
	var out []string
	for _, t := range ts {
		list := strings.Join(texts(t.Layout...), ", ")
		if len(t.Layout) > 1 {
			list = "[" + list + "]"
		}
		out = append(out, fmt.Sprintf("dense<%s> : tensor<%dxindex>", list, len(t.Layout)))
	}
	return "[" + strings.Join(out, ", ") + "]"
}
