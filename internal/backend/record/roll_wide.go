package record

import (
	"slices"

	"trireme/tensor"
)

// elementwise are the arguments of operations whose elements are independent, but for exact sums, which have
// no order. The other arguments are the same for all elements.
var elementwise = map[string][]string{
	"Copy": {"dst", "src"}, "Fill": {"dst"}, "Update": {"p", "state", "g"}, exactSquares: {"x"},
}

const exactSquares = "ExactSquares"

// unit is the number of elements whose multiples a range must have: those of a scale, or of a sum before it is
// exact.
func (op *Op) unit(v *View) int {
	switch {
	case op.Name == exactSquares:
		return tensor.SumBlock
	case v.DType == tensor.U8:
		return tensor.StateBlock
	}
	return 1
}

// widen replaces loops over neighboring ranges of buffers, such as the update of each layer's parameters, by
// operations on all ranges at once. A compiler fuses these with what comes before and after.
func (r *Rolled) widen() {
	var out []Node
	for _, n := range r.Nodes {
		if n.Loop == nil || !n.Loop.independent() {
			out = append(out, n)
			continue
		}
		for i := range n.Loop.Body {
			op := n.Loop.wide(i)
			out = append(out, Node{Op: &op})
		}
	}
	r.Nodes = out
}

// independent reports whether the loop's operations are element-wise on all of their locals, which are
// neighboring ranges of buffers that no other local has.
func (l *Loop) independent() bool {
	if len(l.Streams) > 0 {
		return false
	}
	for k := range l.Locals {
		x := &l.Locals[k]
		if x.Kind != Whole && (x.Kind != Slice || x.Stride != x.Elems) {
			return false
		}
		for j := range l.Locals {
			y := &l.Locals[j]
			if j != k && x.Write && y.Buffer == x.Buffer && (y.Kind == Whole || y.Start < x.Start+l.Count*x.Elems && x.Start < y.Start+l.Count*y.Elems) {
				return false
			}
		}
	}
	for i := range l.Body {
		op := &l.Body[i]
		of, ok := elementwise[op.Name]
		if !ok {
			return false
		}
		op.each(func(a *Arg, v *View) {
			x := &l.Locals[v.Buffer]
			if !slices.Contains(of, a.Name) {
				ok = ok && x.Kind == Whole && (!x.Write || op.Name == exactSquares && a.Name == "acc") && (op.Name != exactSquares || a.Name != "ends")
				return
			}
			n := v.Shape.Elems()
			ok = ok && x.Kind == Slice && len(v.Shape) == 1 && v.Axis == "" && v.Offset == 0 && v.DType == x.DType && n == x.Elems && n%op.unit(v) == 0
		})
		if !ok {
			return false
		}
	}
	return true
}

// wide is operation i of the body for all iterations.
func (l *Loop) wide(i int) Op {
	return l.Body[i].withViews(func(_ int, v *View) {
		x := &l.Locals[v.Buffer]
		v.move(x.Buffer, x.Start)
		if x.Kind == Whole {
			return
		}
		v.Shape, v.RowStride = tensor.Shape{l.Count, x.Elems}, x.Elems
		if l.Body[i].Name != "Update" { // which has the same groups in each row
			v.Shape, v.RowStride = tensor.Shape{l.Count * x.Elems}, l.Count*x.Elems
		}
	})
}
