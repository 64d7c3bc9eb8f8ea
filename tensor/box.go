package tensor

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Box is a slice of a tensor: indices [Offsets[i], Offsets[i]+Sizes[i]) in dimension i. Its
// elements are numbered in row-major order. Boxes are immutable; they may share slices with shapes
// and each other.
type Box struct {
	Offsets []int `json:"offsets"`
	Sizes   Shape `json:"sizes"`
}

// FullBox is the box of all elements of shape s.
func FullBox(s Shape) Box { return Box{make([]int, len(s)), s} }

// Elems is the number of elements in the box.
func (b Box) Elems() int { return b.Sizes.Elems() }

// Equal reports whether two boxes are the same.
func (b Box) Equal(o Box) bool {
	return slices.Equal(b.Offsets, o.Offsets) && b.Sizes.Equal(o.Sizes)
}

// In reports whether the box is within shape s. Any numbers are safe, including those of an
// untrusted file.
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

// Intersect returns the intersection of two boxes of one tensor; false if it is empty.
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

// Range splits elements [lo, hi) of the box into boxes, in ascending order: contiguous ranges of
// the box, no more than 2*dimensions-1.
func (b Box) Range(lo, hi int) []Box {
	if lo >= hi {
		return nil
	}
	return b.appendRange(0, lo, hi, nil)
}

// appendRange appends elements [lo, hi) of b, which has size 1 in each dimension before d.
func (b Box) appendRange(d, lo, hi int, out []Box) []Box {
	if d == len(b.Sizes) {
		return append(out, b)
	}
	row := b.Sizes[d+1:].Elems()
	first, last := lo/row, hi/row
	if first == last {
		return b.Slice(d, first, first+1).appendRange(d+1, lo-first*row, hi-first*row, out)
	}
	if lo%row > 0 {
		out = b.Slice(d, first, first+1).appendRange(d+1, lo%row, row, out)
		first++
	}
	if first < last {
		out = append(out, b.Slice(d, first, last))
	}
	if hi%row > 0 {
		out = b.Slice(d, last, last+1).appendRange(d+1, 0, hi%row, out)
	}
	return out
}

// Slice is indices [lo, hi) of the box in dimension d.
func (b Box) Slice(d, lo, hi int) Box {
	r := Box{slices.Clone(b.Offsets), slices.Clone(b.Sizes)}
	r.Offsets[d] += lo
	r.Sizes[d] = hi - lo
	return r
}

// Run is N contiguous elements of two boxes, from element X of the first and Y of the second.
type Run struct{ X, Y, N int }

// Runs iterates over the elements of b, which is within x and y, in ascending order, by runs that
// are contiguous in both.
func (b Box) Runs(x, y Box) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		if b.Elems() == 0 {
			return
		}
		outer := len(b.Sizes) // dimensions iterated index by index
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

// at is the element number in o of b's element with the given indices; missing ones are 0.
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

// String formats the box as a slice: [0:4,8:16].
func (b Box) String() string {
	var s strings.Builder
	for i, at := range b.Offsets {
		fmt.Fprintf(&s, ",%d:%d", at, at+b.Sizes[i])
	}
	return "[" + strings.TrimPrefix(s.String(), ",") + "]"
}
