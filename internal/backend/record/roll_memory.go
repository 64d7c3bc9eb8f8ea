package record

// uses lists the buffers that a node uses.
func (n *Node) uses(f func(buf int)) {
	if n.Op != nil {
		for i := range n.Op.Args {
			for j := range n.Op.Args[i].Views {
				if v := &n.Op.Args[i].Views[j]; v.Buffer >= 0 {
					f(v.Buffer)
				}
			}
		}
		return
	}
	for i := range n.Loop.Locals {
		x := &n.Loop.Locals[i]
		for _, b := range []int{x.Buffer, x.Init.Buffer, x.Last.Buffer} {
			if b >= 0 {
				f(b)
			}
		}
	}
}

// lifetimes returns the first and last node that uses each buffer.
func (r *Rolled) lifetimes() (first, last []int) {
	first, last = make([]int, len(r.Buffers)), make([]int, len(r.Buffers))
	for i := range first {
		first[i] = len(r.Nodes)
	}
	for i := range r.Nodes {
		r.Nodes[i].uses(func(b int) { first[b], last[b] = min(first[b], i), i })
	}
	return first, last
}

// markDead finds slices that loops write for one iteration only: gradients in the memory of activations,
// whose stack is not used after the loop.
func (r *Rolled) markDead() {
	_, last := r.lifetimes()
	for i := range r.Nodes {
		l := r.Nodes[i].Loop
		if l == nil {
			continue
		}
		for k := range l.Locals {
			x := &l.Locals[k]
			x.Dead = x.Kind == Slice && x.Write && r.Buffers[x.Buffer].Kind == Temporary && last[x.Buffer] == i && !l.readLater(x)
		}
	}
}

// readLater reports whether a later iteration may use what the body writes to a slice.
func (l *Loop) readLater(x *Local) bool {
	for k := range l.Locals {
		y := &l.Locals[k]
		if y.Init.Buffer == x.Buffer || y.Last.Buffer == x.Buffer {
			return true
		}
		if y.Buffer != x.Buffer {
			continue
		}
		if y.Kind != Slice || y.Stride != x.Stride {
			return true
		}
		for by := 1; by < l.Count; by++ {
			if at := y.Start + by*y.Stride; x.Start < at+y.Elems && at < x.Start+x.Elems {
				return true
			}
		}
	}
	return false
}

// Peak is the peak of live temporaries in bytes, in the order of the operations.
func (p *Program) Peak() int { return p.straight().Peak() }

// Peak is the peak of live temporaries in bytes, in the order of the nodes. A temporary lives from
// its first use to its last. A Carry takes the memory of an Init that is not used afterwards, and
// Last that of a local if it was not used before.
func (r *Rolled) Peak() (peak int) {
	first, last := r.lifetimes()
	live := 0
	for i := range r.Nodes {
		n := &r.Nodes[i]
		begins, ends, after := map[int]bool{}, map[int]bool{}, map[int]bool{}
		n.uses(func(b int) {
			if r.Buffers[b].Kind == Temporary {
				begins[b], ends[b] = first[b] == i, last[b] == i
			}
		})
		within := 0
		if n.Loop != nil {
			within = n.Loop.peak()
			for _, x := range n.Loop.Locals {
				if b := x.Init.Buffer; b >= 0 && ends[b] {
					live -= r.Buffers[b].Size
					ends[b] = false
				}
				if b := x.Last.Buffer; b >= 0 && begins[b] {
					begins[b], after[b] = false, true
				}
			}
		}
		add := func(some map[int]bool, sign int) {
			for b, ok := range some {
				if ok {
					live += sign * r.Buffers[b].Size
				}
			}
		}
		add(begins, 1)
		peak = max(peak, live+within)
		add(after, 1)
		peak = max(peak, live)
		add(ends, -1)
	}
	return peak
}

// peak is the peak of an iteration's Temp and Carry locals in bytes.
func (l *Loop) peak() (peak int) {
	type life struct{ first, last int } // operations
	lives := make([]life, len(l.Locals))
	for i, x := range l.Locals {
		if lives[i] = (life{len(l.Body), -1}); x.Kind == Carry {
			lives[i].first = 0
		}
	}
	for k := range l.Body {
		n := Node{Op: &l.Body[k]}
		n.uses(func(b int) { lives[b] = life{min(lives[b].first, k), k} })
	}
	for _, x := range l.Locals {
		if x.Kind == Carry {
			lives[x.Next].last = len(l.Body) - 1
		}
	}
	change := make([]int, len(l.Body)+1)
	for i, x := range l.Locals {
		if (x.Kind == Temp || x.Kind == Carry) && lives[i].first <= lives[i].last {
			change[lives[i].first] += x.Elems * x.DType.Size()
			change[lives[i].last+1] -= x.Elems * x.DType.Size()
		}
	}
	live := 0
	for _, by := range change {
		live += by
		peak = max(peak, live)
	}
	return peak
}
