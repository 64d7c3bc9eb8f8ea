package record

import (
	"testing"

	"pgregory.net/rapid"

	"trireme/tensor"
)

// TestVersions compares random views with a buffer that stores a version per element.
func TestVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rows, width = 6, 8
		var v versions
		var each [rows * width]int
		views := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *View {
			r, c := rapid.IntRange(0, rows-1).Draw(t, "row"), rapid.IntRange(0, width-1).Draw(t, "column")
			h, w := rapid.IntRange(0, rows-r).Draw(t, "rows"), rapid.IntRange(0, width-c).Draw(t, "columns")
			if rapid.Bool().Draw(t, "flat") {
				n := rapid.IntRange(0, rows*width-r*width-c).Draw(t, "elements")
				return &View{DType: tensor.F16, Shape: tensor.Shape{n}, RowStride: n, Offset: r*width + c}
			}
			return &View{DType: tensor.F16, Shape: tensor.Shape{h, w}, RowStride: width, Offset: r*width + c}
		}), 1, 12).Draw(t, "views")
		for i, x := range views {
			newest, written := 0, true
			for k := range x.Shape.Elems() {
				at := x.Offset + k
				if len(x.Shape) == 2 {
					at = x.Offset + k/x.Shape[1]*width + k%x.Shape[1]
				}
				newest, written = max(newest, each[at]), written && each[at] > 0
				if i%2 == 0 {
					each[at] = v.count + 1
				}
			}
			if gotNewest, gotWritten := v.read(x); gotNewest != newest || gotWritten != written {
				t.Fatalf("view %d, %+v, is read as version %d, written %t; want %d, %t", i, *x, gotNewest, gotWritten, newest, written)
			}
			if i%2 == 0 {
				v.write(x)
			}
		}
	})
}

// TestPartVersions checks that ranks see equal versions of their parts and of the whole.
func TestPartVersions(t *testing.T) {
	whole := &View{DType: tensor.F32, Shape: tensor.Shape{12}, RowStride: 12}
	first := &View{DType: tensor.F32, Shape: tensor.Shape{4}, RowStride: 4}
	own := &View{DType: tensor.F32, Shape: tensor.Shape{4}, RowStride: 4, Axis: "shard", Count: 3, Elems: 4}
	second := &View{DType: tensor.F32, Shape: tensor.Shape{4}, RowStride: 4, Offset: 4}
	half := &View{DType: tensor.F32, Shape: tensor.Shape{2}, RowStride: 2, Offset: 2, Axis: "shard", Count: 3, Elems: 4}
	other := &View{DType: tensor.F32, Shape: tensor.Shape{6}, RowStride: 6, Axis: "world", Count: 2, Elems: 6}
	var v versions
	for i, s := range []struct {
		view    *View
		write   bool
		newest  int
		written bool
	}{
		{view: own}, // nothing written
		{view: own, write: true},
		{view: own, newest: 1, written: true},
		{view: half, newest: 1, written: true},
		{view: whole, newest: 1}, // any part may be written
		{view: first, newest: 1},
		{view: second, newest: 1},
		{view: other, newest: 1},
		{view: whole, write: true},
		{view: own, newest: 2, written: true},
		{view: first, newest: 2, written: true},
		{view: half, write: true},
		{view: own, newest: 3, written: true},
		{view: first, newest: 3, written: true},
		{view: other, newest: 3, written: true},
	} {
		if s.write {
			v.write(s.view)
			continue
		}
		if newest, written := v.read(s.view); newest != s.newest || written != s.written {
			t.Errorf("%d: read as version %d, written %t; want %d, %t", i, newest, written, s.newest, s.written)
		}
	}
}
