package tensor

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Box is a part of a tensor: in dimension i the indices [Offsets[i], Offsets[i]+Sizes[i]). Its
// elements are counted in its own row-major order. Boxes are not changed once made: they may share
// slices with shapes and with one another.
type Box struct {
	Offsets []int `json:"offsets"`
	Sizes   Shape `json:"sizes"`
}

// Whole is all of a tensor of shape s.
func Whole(s Shape) Box { return Box{make([]int, len(s)), s} }

// Elems is the number of elements in the box.
func (b Box) Elems() int { return b.Sizes.Elems() }

// Equal reports whether two boxes have the same elements of a tensor, in the same shape.
func (b Box) Equal(o Box) bool {
	return slices.Equal(b.Offsets, o.Offsets) && b.Sizes.Equal(o.Sizes)
}

// In reports whether the box lies in a tensor of shape s. It holds for any numbers, those of a
// stranger's file too.
func (b Box) In(s Shape) bool {
	if len(b.Offsets) != len(s) || len(b.Sizes) != len(s) {
		return false
	}
	for i, n := range s {
		if b.Offsets[i] < 0 || b.Sizes[i] < 0 || b.Offsets[i] > n || b.Sizes[i] > n-b.Offsets[i] {
			return false
		}
	}
	return true
}

// Intersect is the intersection of two boxes of one tensor; false where it has no elements.
func (b Box) Intersect(o Box) (Box, bool) {
	for i := range b.Sizes {
		if max(b.Offsets[i], o.Offsets[i]) >= min(b.Offsets[i]+b.Sizes[i], o.Offsets[i]+o.Sizes[i]) {
			return Box{}, false
		}
	}
	m := Box{make([]int, len(b.Offsets)), make(Shape, len(b.Sizes))}
	for i := range b.Sizes {
		m.Offsets[i] = max(b.Offsets[i], o.Offsets[i])
		m.Sizes[i] = min(b.Offsets[i]+b.Sizes[i], o.Offsets[i]+o.Sizes[i]) - m.Offsets[i]
	}
	return m, true
}

// Range is elements [lo, hi) of the box as boxes of the tensor, in ascending order: each of them is a
// run of the box's elements, and there are at most 2*dimensions-1.
func (b Box) Range(lo, hi int) []Box {
	if lo >= hi {
		return nil
	}
	return b.cut(0, lo, hi, nil)
}

// cut appends elements [lo, hi) of the part of b that has one index in each dimension before d: of
// the box made of dimensions d and up.
func (b Box) cut(d, lo, hi int, out []Box) []Box {
	if d == len(b.Sizes) {
		return append(out, b)
	}
	row := b.Sizes[d+1:].Elems()
	first, last := lo/row, hi/row
	if first == last {
		return b.Slice(d, first, first+1).cut(d+1, lo-first*row, hi-first*row, out)
	}
	if lo%row > 0 {
		out = b.Slice(d, first, first+1).cut(d+1, lo%row, row, out)
		first++
	}
	if first < last {
		out = append(out, b.Slice(d, first, last))
	}
	if hi%row > 0 {
		out = b.Slice(d, last, last+1).cut(d+1, 0, hi%row, out)
	}
	return out
}

// Slice is the part of the box from its index lo to before its index hi in dimension d.
func (b Box) Slice(d, lo, hi int) Box {
	r := Box{slices.Clone(b.Offsets), slices.Clone(b.Sizes)}
	r.Offsets[d] += lo
	r.Sizes[d] = hi - lo
	return r
}

// Run is N elements that follow one another in two boxes: from element X of the one and from
// element Y of the other.
type Run struct{ X, Y, N int }

// Runs walks the elements of the box, which lies in x and in y, in ascending order, by runs that
// both hold without gaps.
func (b Box) Runs(x, y Box) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		if b.Elems() == 0 {
			return
		}
		outer := len(b.Sizes) // dimensions that are walked index by index
		n := 1
		for outer > 0 {
			outer--
			n *= b.Sizes[outer]
			if b.Sizes[outer] != x.Sizes[outer] || b.Sizes[outer] != y.Sizes[outer] {
				break
			}
		}
		index := make([]int, outer)
		for {
			if !yield(Run{b.at(index, x), b.at(index, y), n}) {
				return
			}
			d := outer - 1
			for ; d >= 0; d-- {
				if index[d]++; index[d] < b.Sizes[d] {
					break
				}
				index[d] = 0
			}
			if d < 0 {
				return
			}
		}
	}
}

// at is the element of o at which lies the one of b with the indices given, 0 for those not given.
func (b Box) at(index []int, o Box) int {
	n := 0
	for d, size := range o.Sizes {
		n = n*size + b.Offsets[d] - o.Offsets[d]
		if d < len(index) {
			n += index[d]
		}
	}
	return n
}

// String is the box as slices of its tensor are written: [0:4,8:16].
func (b Box) String() string {
	var s strings.Builder
	for i, at := range b.Offsets {
		fmt.Fprintf(&s, ",%d:%d", at, at+b.Sizes[i])
	}
	return "[" + strings.TrimPrefix(s.String(), ",") + "]"
}
