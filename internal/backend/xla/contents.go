package xla

import (
	"fmt"
	"slices"

	"trireme/tensor"
)

// region is a set of elements of a buffer: rows of width elements, ld apart. A contiguous region is
// one row.
type region struct {
	off, rows, width, ld int
	axis                 string // of a rank-dependent region: off is that of coordinate 0
	base, all, step      int    // first element and length of all parts, length of a part
}

func regionOf(t *tensor.Tensor) region {
	r := region{off: t.Offset(), rows: t.Rows(), width: t.Width(), ld: t.RowStride()}
	if t.Contiguous() {
		n := t.Elems()
		r.rows, r.width, r.ld = 1, n, n
	}
	if p := t.Part(); p != nil {
		r.off -= p.Index * p.Elems
		r.axis, r.base, r.all, r.step = p.Axis, p.First, p.Count*p.Elems, p.Elems
	}
	return r
}

func flatRegion(off, n int) region { return region{off: off, rows: 1, width: n, ld: n} }

func (r region) elems() int { return r.rows * r.width }

// span is the range that r may touch.
func (r region) span() (lo, hi int) {
	if r.axis != "" {
		return r.base, r.base + r.all
	}
	return r.off, r.off + (r.rows-1)*r.ld + r.width
}

// samePart reports whether offsets of both are comparable.
func (r region) samePart(o region) bool {
	return r.axis == o.axis && r.base == o.base && r.all == o.all && r.step == o.step
}

// find returns the offset of o in r as rows and columns of r, if o is a sub-matrix.
func (r region) find(o region) (row, col int, ok bool) {
	if !r.samePart(o) {
		return 0, 0, false
	}
	d := o.off - r.off
	if d < 0 || r.ld == 0 {
		return 0, 0, false
	}
	if r.rows == 1 {
		end := d + (o.rows-1)*o.ld + o.width
		return 0, d, end <= r.width
	}
	row, col = d/r.ld, d%r.ld
	return row, col, o.rows > 1 && o.ld == r.ld && row+o.rows <= r.rows && col+o.width <= r.width ||
		o.rows == 1 && row < r.rows && col+o.width <= r.width
}

// contains reports whether every element of o is in r.
func (r region) contains(o region) bool {
	if o.axis != "" && r.axis == "" {
		lo, hi := o.span()
		return r.rows == 1 && r.off <= lo && hi <= r.off+r.width
	}
	_, _, ok := r.find(o)
	return ok
}

// overlaps reports whether r and o may have elements in common.
func (r region) overlaps(o region) bool {
	lo, hi := r.span()
	olo, ohi := o.span()
	if hi <= olo || ohi <= lo {
		return false
	}
	if r.samePart(o) && r.rows > 1 && o.rows > 1 && r.ld == o.ld {
		d := ((o.off-r.off)%r.ld + r.ld) % r.ld // columns may begin in a row of the buffer and end in the next
		return d < r.width || d+o.width > r.ld
	}
	if r.axis != "" && r.samePart(o) {
		lo, hi = r.off, r.off+(r.rows-1)*r.ld+r.width
		olo, ohi = o.off, o.off+(o.rows-1)*o.ld+o.width
		return hi > olo && ohi > lo
	}
	return true
}

// contents are the values that a buffer holds: regions, the newest last.
type contents struct {
	dt      tensor.DType
	n       int // elements
	entries []entry
	// base is a region before all entries, if it can be read alone; nil contents are undefined.
	base func(r region) (v value, ok bool)
	read bool // from base
}

type entry struct {
	region
	v value
}

// write stores v in a region.
func (c *contents) write(r region, v value) {
	if r.elems() == 0 {
		return
	}
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool { return r.contains(e.region) })
	c.entries = append(c.entries, entry{r, v})
}

// read returns a region as an array of dims.
func (e *emitter) read(c *contents, r region, dims []int) value {
	if r.elems() == 0 {
		return e.splat(elems[c.dt], 0, dims...)
	}
	for i := len(c.entries) - 1; i >= 0; i-- {
		x := c.entries[i]
		if x.region == r {
			return e.reshape(x.v, dims...)
		}
		if _, _, ok := x.find(r); ok {
			return e.reshape(e.sub(x, r), dims...)
		}
		if x.overlaps(r) {
			break
		}
	}
	if v, ok := e.tile(c, r); ok {
		return e.reshape(v, dims...)
	}
	if c.base != nil && r.axis == "" && !slices.ContainsFunc(c.entries, func(x entry) bool { return x.overlaps(r) }) {
		if v, ok := c.base(r); ok {
			c.read = true
			return e.reshape(v, dims...)
		}
	}
	e.consolidate(c)
	whole := c.entries[0]
	if r.axis != "" {
		all := e.slice(e.flat(whole.v), []int{r.base}, []int{r.base + r.all})
		at := e.stride(r.all, e.coordinate(r.axis), r.step)
		own := e.dynamicSlice(all, []int{r.step}, at)
		x := entry{region{off: r.base, rows: 1, width: r.step, ld: r.step, axis: r.axis, base: r.base, all: r.all, step: r.step}, own}
		return e.reshape(e.sub(x, r), dims...)
	}
	return e.reshape(e.sub(whole, r), dims...)
}

// sub is region r of an entry that contains it.
func (e *emitter) sub(x entry, r region) value {
	row, col, ok := x.find(r)
	if !ok {
		panic(fmt.Sprintf("xla: region %+v is not in %+v", r, x.region))
	}
	if x.rows > 1 { // with r.ld == x.ld, or one row
		return e.slice(e.reshape(x.v, x.rows, x.width), []int{row, col}, []int{row + r.rows, col + r.width})
	}
	v := e.flat(x.v)
	if r.rows == 1 {
		return e.slice(v, []int{col}, []int{col + r.width})
	}
	// Rows of ld elements, from one before the region on; the last may be cut off.
	first, at := col/r.ld, col%r.ld
	if at+r.width > r.ld {
		first, at = 0, 0
		v = e.slice(v, []int{col}, []int{col + (r.rows-1)*r.ld + r.width})
	} else if x.width%r.ld != 0 {
		v = e.slice(v, []int{first * r.ld}, []int{min(x.width, (first+r.rows)*r.ld)})
		first = 0
	}
	if rest := v.size() % r.ld; rest != 0 {
		v = e.pad(v, []int{0}, []int{r.ld - rest})
	}
	return e.slice(e.reshape(v, v.size()/r.ld, r.ld), []int{first, at}, []int{first + r.rows, at + r.width})
}

// parts are entries that are side by side in r and newer than all others there, in order of memory.
func (e *emitter) parts(c *contents, r region) (parts []entry, ok bool) {
	sum := 0
	for i := len(c.entries) - 1; i >= 0 && sum < r.elems(); i-- {
		x := c.entries[i]
		if !x.overlaps(r) {
			continue
		}
		if !x.samePart(r) {
			return nil, false
		}
		for _, p := range parts {
			if p.overlaps(x.region) {
				return nil, false
			}
		}
		if !r.contains(x.region) {
			if r.rows > 1 || x.rows > 1 {
				return nil, false
			}
			lo, hi := max(x.off, r.off), min(x.off+x.width, r.off+r.width)
			cut := flatRegion(lo, hi-lo)
			cut.axis, cut.base, cut.all, cut.step = x.axis, x.base, x.all, x.step
			x = entry{cut, e.sub(x, cut)}
		}
		x.v = e.number(x.v, c.dt)
		parts = append(parts, x)
		sum += x.elems()
	}
	if sum != r.elems() || len(parts) == 0 {
		return nil, false
	}
	slices.SortFunc(parts, func(a, b entry) int { return a.off - b.off })
	return parts, true
}

// tile joins the parts of r.
func (e *emitter) tile(c *contents, r region) (value, bool) {
	parts, ok := e.parts(c, r)
	if !ok {
		return value{}, false
	}
	if !slices.ContainsFunc(parts, func(p entry) bool { return p.rows > 1 }) && r.rows == 1 {
		vs := make([]value, len(parts))
		for i, p := range parts {
			vs[i] = e.flat(p.v)
		}
		return e.concat(0, vs...), true
	}
	vs, ok := e.columns(parts, r)
	if !ok {
		return value{}, false
	}
	return e.concat(1, vs...), true
}

// columns are the matrices of parts that are columns of the same rows of r.
func (e *emitter) columns(parts []entry, r region) (vs []value, ok bool) {
	ld, at := parts[0].ld, r.off
	if r.rows == 1 {
		if r.width%ld != 0 || r.off%ld != 0 && parts[0].off != r.off {
			return nil, false
		}
		r.rows, r.ld, r.width = r.width/ld, ld, ld
	}
	for _, p := range parts {
		if p.rows != r.rows || p.ld != r.ld || p.off != at {
			return nil, false
		}
		at += p.width
		vs = append(vs, e.reshape(p.v, p.rows, p.width))
	}
	return vs, true
}

// consolidate makes the buffer one entry.
func (e *emitter) consolidate(c *contents) value {
	all := flatRegion(0, c.n)
	if len(c.entries) == 1 && c.entries[0].region == all {
		return e.flat(c.entries[0].v)
	}
	v, ok := e.tile(c, all)
	if ok {
		v = e.flat(v)
	} else {
		entries := c.entries
		if len(entries) > 0 && entries[0].region == all {
			v, entries = e.flat(e.number(entries[0].v, c.dt)), entries[1:]
		} else if c.base != nil {
			v, _ = c.base(all)
		} else {
			v = e.undefined(elems[c.dt], c.n)
		}
		for _, x := range entries {
			x.v = e.number(x.v, c.dt)
			v = e.overwrite(v, x)
		}
	}
	c.entries = []entry{{all, v}}
	return v
}

// overwrite replaces a region of a flat array.
func (e *emitter) overwrite(v value, x entry) value {
	n := v.size()
	off := e.offset(n, x.off)
	if x.axis != "" {
		off = e.binary("add", off, e.stride(n, e.coordinate(x.axis), x.step))
	}
	if x.rows == 1 {
		return e.update(v, e.flat(x.v), off)
	}
	if x.axis == "" && n%x.ld == 0 && x.off%x.ld+x.width <= x.ld {
		m := e.update(e.reshape(v, n/x.ld, x.ld), e.reshape(x.v, x.rows, x.width), e.offset(n, x.off/x.ld), e.offset(n, x.off%x.ld))
		return e.flat(m)
	}
	for i := range x.rows { // rare: rows that are no columns of the buffer
		row := e.slice(e.reshape(x.v, x.rows, x.width), []int{i, 0}, []int{i + 1, x.width})
		v = e.update(v, e.flat(row), e.binary("add", off, e.offset(n, i*x.ld)))
	}
	return v
}

// undefined is an array of n elements with any contents. An array in memory of a GPU is not written before
// its elements are; equal calls would be one array.
func (e *emitter) undefined(of elem, n int) value {
	if e.target.platform != "cuda" || n < leastUndefined {
		return e.splat(of, 0, n)
	}
	e.arrays++
	return e.op("custom_call", fmt.Sprintf("api_version = 1 : i32, backend_config = \"%d\", call_target_name = \"AllocateBuffer\", has_side_effect = false", e.arrays), of, []int{n})
}

// leastUndefined is the least number of elements for which a call pays.
const leastUndefined = 1 << 16
