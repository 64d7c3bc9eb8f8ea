package record

import (
	"slices"

	"trireme/tensor"
)

// wide describes an operation whose elements are independent.
type wide struct {
	elements []string // arguments that have them; the others are the same for all, and only read
	sum      string   // one that is an exact sum over them, which has no order
	absent   string   // one that must be nil
	unit     int      // the number of elements in a range is a multiple of it
}

var wideOps = map[string]wide{
	"Copy":         {elements: []string{"dst", "src"}, unit: 1},
	"Fill":         {elements: []string{"dst"}, unit: 1},
	"Update":       {elements: []string{"p", "state", "g"}, unit: 1},
	"ExactSquares": {elements: []string{"x"}, sum: "acc", absent: "ends", unit: tensor.SumBlock},
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
		of, ok := wideOps[op.Name]
		if !ok {
			return false
		}
		op.each(func(a *Arg, v *View) {
			x := &l.Locals[v.Buffer]
			switch n := v.Shape.Elems(); {
			case slices.Contains(of.elements, a.Name):
				ok = ok && x.Kind == Slice && len(v.Shape) == 1 && v.Axis == "" && v.Offset == 0 && v.DType == x.DType && n == x.Elems &&
					n%of.unit == 0 && (v.DType != tensor.U8 || n%tensor.StateBlock == 0) // blocks of a scale
			case a.Name == of.absent:
				ok = false
			default:
				ok = ok && x.Kind == Whole && (!x.Write || a.Name == of.sum)
			}
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
