package tensor_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trireme/tensor"
)

// indices lists a box's elements in row-major order, as element numbers of a tensor of shape s.
func indices(b tensor.Box, s tensor.Shape) []int {
	out := []int{0}
	for d, size := range s {
		var next []int
		for _, at := range out {
			for i := range b.Sizes[d] {
				next = append(next, at*size+b.Offsets[d]+i)
			}
		}
		out = next
	}
	return out
}

func anyShape(rt *rapid.T) tensor.Shape {
	return rapid.SliceOfN(rapid.IntRange(1, 5), 0, 4).Draw(rt, "shape")
}

// boxIn draws a box in o, possibly empty.
func boxIn(rt *rapid.T, o tensor.Box, name string) tensor.Box {
	b := tensor.Box{Offsets: make([]int, len(o.Sizes)), Sizes: make(tensor.Shape, len(o.Sizes))}
	for d, n := range o.Sizes {
		at := rapid.IntRange(0, n).Draw(rt, name)
		b.Offsets[d], b.Sizes[d] = o.Offsets[d]+at, rapid.IntRange(0, n-at).Draw(rt, name)
	}
	return b
}

// TestRange checks the number, order and contiguity of a range's boxes.
func TestRange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := anyShape(rt)
		box := boxIn(rt, tensor.FullBox(s), "box")
		n := box.Elems()
		lo := rapid.IntRange(0, n).Draw(rt, "lo")
		hi := rapid.IntRange(lo, n).Draw(rt, "hi")
		cut := box.Range(lo, hi)
		if len(cut) > max(1, 2*len(s)-1) {
			rt.Fatalf("%v [%d,%d) is %v", box, lo, hi, cut)
		}
		var got []int
		for _, b := range cut {
			if !b.In(s) {
				rt.Fatalf("%v is outside %v", b, s)
			}
			runs := 0
			for range b.Runs(b, box) {
				runs++
			}
			if runs != 1 {
				rt.Fatalf("%v is %d runs of %v", b, runs, box)
			}
			got = append(got, indices(b, s)...)
		}
		if want := indices(box, s)[lo:hi]; !slices.Equal(got, want) {
			rt.Fatalf("%v [%d,%d) is %v: elements %v, want %v", box, lo, hi, cut, got, want)
		}
	})
}

// TestIntersect checks an intersection's elements, and its runs in both boxes.
func TestIntersect(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := anyShape(rt)
		a, b := boxIn(rt, tensor.FullBox(s), "a"), boxIn(rt, tensor.FullBox(s), "b")
		ofA, ofB := indices(a, s), indices(b, s)
		var want, got []int
		for _, e := range ofA {
			if slices.Contains(ofB, e) {
				want = append(want, e)
			}
		}
		m, ok := a.Intersect(b)
		if ok != (len(want) > 0) {
			rt.Fatalf("%v and %v intersect: %t", a, b, ok)
		}
		if !ok {
			return
		}
		for run := range m.Runs(a, b) {
			for i := range run.N {
				if ofA[run.X+i] != ofB[run.Y+i] {
					rt.Fatalf("%v and %v: run %v", a, b, run)
				}
				got = append(got, ofA[run.X+i])
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(indices(m, s), want) {
			rt.Fatalf("%v and %v intersect in %v: %v, want %v", a, b, m, got, want)
		}
	})
}

// FuzzBox checks In on any numbers, and ranges of valid boxes.
func FuzzBox(f *testing.F) {
	f.Add(3, 4, 0, 0, 3, 4, 5)
	f.Add(3, 4, 1<<62, -1, 3, 1<<62, 0)
	f.Add(2, 2, 1<<63-1, 1, 1, 1, 1)
	f.Fuzz(func(t *testing.T, n, m, at, to, rows, cols, hi int) {
		s, b := tensor.Shape{n & 15, m & 15}, tensor.Box{Offsets: []int{at, to}, Sizes: tensor.Shape{rows, cols}}
		if !b.In(s) {
			return
		}
		if at < 0 || to < 0 || rows < 0 || cols < 0 || at+rows > s[0] || to+cols > s[1] {
			t.Fatalf("%v is in %v", b, s)
		}
		var got []int
		for _, c := range b.Range(0, min(b.Elems(), hi&255)) {
			got = append(got, indices(c, s)...)
		}
		if !slices.Equal(got, indices(b, s)[:len(got)]) {
			t.Fatalf("%v: %v", b, got)
		}
	})
}

func TestBoxString(t *testing.T) {
	for want, b := range map[string]tensor.Box{
		"[]":            tensor.FullBox(nil),
		"[0:3]":         tensor.FullBox(tensor.Shape{3}),
		"[1:3,4:4]":     {Offsets: []int{1, 4}, Sizes: tensor.Shape{2, 0}},
		"[0:1,2:4,5:6]": {Offsets: []int{0, 2, 5}, Sizes: tensor.Shape{1, 2, 1}},
	} {
		if got := b.String(); got != want {
			t.Errorf("%+v is %s, want %s", b, got, want)
		}
	}
}
