package record

import (
	"cmp"
	"slices"
)

// builder builds a Rolled.
type builder struct {
	*roller
	out     *Rolled
	numbers []int          // in out, by number in the program; -1 for none
	stacks  map[*chain]int // numbers in out
}

// build is the program with the loops of windows.
func (r *roller) build(windows []*window) *Rolled {
	b := &builder{roller: r, out: &Rolled{}, numbers: make([]int, len(r.p.Buffers)), stacks: map[*chain]int{}}
	for i := range b.numbers {
		b.numbers[i] = -1
	}
	slices.SortFunc(windows, func(x, y *window) int { return cmp.Compare(x.start, y.start) })
	for i := 0; i < len(r.p.Ops); {
		if len(windows) > 0 && windows[0].start == i {
			b.out.Nodes = append(b.out.Nodes, Node{Loop: b.loop(windows[0])})
			i = windows[0].end()
			windows = windows[1:]
			continue
		}
		op := r.p.Ops[i].withViews(func(_ int, v *View) {
			at := b.position(v.Buffer)
			v.move(at.Buffer, at.Start)
		})
		b.out.Nodes = append(b.out.Nodes, Node{Op: &op})
		i++
	}
	return b.out
}

// withViews is op with f applied to copies of its views of tensors that are not nil. The views are
// numbered, with nil ones.
func (op *Op) withViews(f func(i int, v *View)) Op {
	out := *op
	out.Args = slices.Clone(op.Args)
	n := 0
	for i := range out.Args {
		a := &out.Args[i]
		a.Views = slices.Clone(a.Views)
		for j := range a.Views {
			if v := &a.Views[j]; v.Buffer >= 0 {
				v.Reads, v.Writes = 0, 0
				f(n, v)
			}
			n++
		}
	}
	return out
}

// move puts v into another buffer, elems elements on.
func (v *View) move(buffer, elems int) {
	v.Buffer = buffer
	v.Offset += elems
	if v.Axis != "" {
		v.base += elems
	}
}

// elems is a buffer's size in elements.
func (b Buffer) elems() int { return b.Size / b.DType.Size() }

// position is where a buffer of the program starts.
func (b *builder) position(buf int) Position {
	s := b.stackOf[buf]
	if s == nil {
		if b.numbers[buf] < 0 {
			b.numbers[buf] = len(b.out.Buffers)
			b.add(b.p.Buffers[buf], buf, 0)
		}
		return Position{Buffer: b.numbers[buf]}
	}
	number, ok := b.stacks[s]
	if !ok {
		number = len(b.out.Buffers)
		b.stacks[s] = number
		all := b.p.Buffers[buf]
		all.Size *= len(s.bufs)
		b.add(all, -1, len(s.bufs))
	}
	at := b.stackAt[buf] - s.lo
	if b.first[s.bufs[s.lo]] > b.first[s.bufs[s.hi-1]] { // in order of first use
		at = s.hi - 1 - b.stackAt[buf]
	}
	return Position{number, at * b.p.Buffers[buf].elems()}
}

func (b *builder) add(buf Buffer, bound, stacked int) {
	b.out.Buffers, b.out.Bound, b.out.Stacked = append(b.out.Buffers, buf), append(b.out.Bound, bound), append(b.out.Stacked, stacked)
}

// localKey identifies a local.
type localKey struct {
	chain  *chain
	shift  int
	extent *extent
}

// loop is a window's loop.
func (b *builder) loop(w *window) *Loop {
	l := &Loop{Count: w.count, Streams: w.streams}
	numbers := map[localKey]int{}
	var local func(c *chain, shift int, e *extent) int
	local = func(c *chain, shift int, e *extent) int {
		key := localKey{c, shift, e}
		if n, ok := numbers[key]; ok {
			return n
		}
		n := len(l.Locals)
		numbers[key] = n
		l.Locals = append(l.Locals, Local{})
		switch {
		case e != nil:
			l.Locals[n] = b.extentLocal(e)
		case c.stack:
			l.Locals[n] = b.stackLocal(c, shift)
		default:
			x := b.tempLocal(c)
			if k := c.lo + shift; shift < c.lag(w) {
				next := local(c, shift+1, nil)
				x.Kind, x.Next = Carry, next
				if first := c.bufs[k]; b.first[first] < w.start {
					x.Init = b.position(first)
				}
				if last := c.bufs[k+w.count]; b.last[last] >= w.end() {
					x.Last = b.position(last)
				}
			}
			l.Locals[n] = x
			if last := c.bufs[c.lo+w.count-1]; shift == 0 && b.last[last] >= w.end() {
				y := b.tempLocal(c)
				y.Kind, y.Next, y.Last = Carry, n, b.position(last)
				l.Locals = append(l.Locals, y)
			}
		}
		return n
	}
	of := make([]int, len(w.operands))
	for k := range w.operands {
		if x := &w.operands[k]; x.Buffer >= 0 {
			of[k] = local(x.chain, x.shift, x.extent)
			own := &l.Locals[of[k]]
			own.Read, own.Write = own.Read || x.read, own.Write || x.write
		}
	}
	n := 0
	for k := range w.period {
		op := b.p.Ops[w.start+k].withViews(func(i int, v *View) {
			x := &w.operands[n+i]
			start := 0
			if p := x.extent; p != nil {
				start = -p.lo / v.DType.Size()
			}
			v.move(of[n+i], start)
		})
		n += len(b.slots[w.start+k])
		l.Body = append(l.Body, op)
	}
	return l
}

// extentLocal is a local for a part of a buffer.
func (b *builder) extentLocal(p *extent) Local {
	buf, at := b.p.Buffers[p.buffer], b.position(p.buffer)
	size := buf.DType.Size()
	x := Local{Kind: Slice, Buffer: at.Buffer, Cat: buf.Cat, DType: buf.DType, Start: at.Start + p.lo/size, Stride: p.moves / size, Elems: (p.hi - p.lo) / size, Init: none, Last: none}
	if p.whole && b.stackOf[p.buffer] == nil {
		x.Kind = Whole
	}
	return x
}

// stackLocal is a local for an operand in a stack.
func (b *builder) stackLocal(c *chain, shift int) Local {
	buf := b.p.Buffers[c.bufs[c.lo]]
	zero, one := b.position(c.bufs[c.lo+shift]), b.position(c.bufs[c.lo+shift+1])
	return Local{Kind: Slice, Buffer: zero.Buffer, Cat: buf.Cat, DType: buf.DType, Start: zero.Start, Stride: one.Start - zero.Start, Elems: buf.elems(), Init: none, Last: none}
}

// tempLocal is a local for temporaries of a loop.
func (b *builder) tempLocal(c *chain) Local {
	buf := b.p.Buffers[c.bufs[c.lo]]
	return Local{Kind: Temp, Buffer: -1, Cat: buf.Cat, DType: buf.DType, Elems: buf.elems(), Init: none, Last: none}
}

// none is no position.
var none = Position{Buffer: -1}
