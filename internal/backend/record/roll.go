package record

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"

	"trireme/tensor"
)

// Rolled is a Program in which runs of alike operations are loops, so that a compiler compiles one
// layer of many. Executed in order, its nodes have the results of the Program's operations. Its
// views have no versions. It is immutable and shares memory with the Program.
type Rolled struct {
	Buffers []Buffer // numbered by first use
	Bound   []int    // per buffer, its number in the Program; -1 for a stack
	Stacked []int    // per buffer, the number of the Program's temporaries in a stack; 0 for no stack
	Nodes   []Node
}

// Node is an operation or a loop; the other one is nil.
type Node struct {
	Op   *Op
	Loop *Loop
}

// Loop runs Body Count times. No local that Body writes shares memory with another one in the same
// iteration: an executor may read slices when an iteration starts and write them when it ends.
type Loop struct {
	Count  int
	Locals []Local
	Body   []Op // views refer to Locals, with offsets from the local's start

	// Streams has the tensor.RandKey.Stream of each iteration, by the stream in Body, which is that
	// of iteration 0. Streams that are the same in all iterations are not in it.
	Streams map[uint64][]uint64
}

// LocalKind is a local's relation to the buffers outside its loop.
type LocalKind string

const (
	Whole LocalKind = "whole" // a buffer, the same in each iteration
	Slice LocalKind = "slice" // a range of a buffer that moves by the same distance each iteration
	Temp  LocalKind = "temp"  // undefined when an iteration starts
	Carry LocalKind = "carry" // has the content of another local at the end of the previous iteration
)

// Local is a buffer of a loop's body.
type Local struct {
	Kind   LocalKind
	Buffer int // of Whole and Slice; -1 otherwise
	Cat    tensor.Category
	DType  tensor.DType // of Start, Stride and Elems: the buffer's element type
	// Slice: elements [Start+i*Stride, Start+i*Stride+Elems) of Buffer in iteration i. Stride may be
	// negative, or 0. Whole, Temp and Carry: Start and Stride are 0 and Elems is the size.
	Start, Stride, Elems int
	Read, Write          bool // by Body; Barrier only reads
	// Dead states that nothing reads what Body writes to the Slice, but the iteration that writes it.
	Dead bool

	// Carry only. In iteration 0 the local has the content of Init, and is undefined if Init has no
	// buffer. In later iterations it has the content of local Next at the end of the iteration before.
	// After the last iteration, Next's content is copied to Last, if that has a buffer.
	Init, Last Position
	Next       int
}

// Position is where Elems elements of a Carry start: a temporary buffer, or a part of a stack.
type Position struct {
	Buffer int // -1 for none
	Start  int // element
}

// Roll finds runs of alike operations and makes them loops. Operations are alike if they differ in
// buffers, offsets, tags and random streams only. Within a loop, an operand's buffers over the
// iterations are one buffer, with an offset that changes by the same distance each time, or
// temporaries of one size. The latter become one of:
//   - Temp, if each is used in one iteration only;
//   - Carry, if each is used in a few consecutive iterations only;
//   - slices of a stack, a temporary that replaces them in the whole program.
//
// The loops are those that shorten the program most; see worthwhile. Loops of element-wise operations on
// neighboring ranges are single operations; see widen.
func (p *Program) Roll() *Rolled {
	out := p.roll()
	out.widen()
	out.markDead()
	return out
}

// roll makes the loops.
func (p *Program) roll() *Rolled {
	r := newRoller(p)
	queue := &candidates{}
	add := func(c candidate) {
		for lo := c.lo; lo < c.hi; lo++ { // the parts that no loop has
			hi := lo
			for hi < c.hi && !r.taken[hi] {
				hi++
			}
			if w := r.best(run{lo, hi, c.period}); w != nil && worthwhile(w) {
				heap.Push(queue, candidate{run{lo, hi, c.period}, w, c.preferred})
			}
			lo = hi
		}
	}
	for _, c := range repeats(r.ids) {
		add(candidate{run: c})
	}
	queue.prefer()
	var accepted []*window
	for queue.Len() > 0 {
		c := heap.Pop(queue).(candidate)
		if slices.Contains(r.taken[c.window.start:c.window.end()], true) {
			add(c)
			continue
		}
		w, at := r.try(c.window)
		if w == nil { // the run breaks at an operation: try its parts
			if at < c.window.start+c.window.period {
				at++
			}
			add(candidate{run{c.lo, at, c.period}, nil, c.preferred})
			add(candidate{run{at, c.hi, c.period}, nil, c.preferred})
			continue
		}
		accepted = append(accepted, w)
		for i := w.start; i < w.end(); i++ {
			r.taken[i] = true
		}
		add(c)
	}
	return r.build(accepted)
}

// try returns an accepted window: w, or one with several of its iterations in one, as models have that
// recompute every second layer. Otherwise it returns an operation at which w's iterations differ.
func (r *roller) try(w *window) (accepted *window, differs int) {
	differs, parts := r.accept(w)
	if differs < 0 {
		return w, -1
	}
	for n := 2; n <= min(parts, w.count/2); n++ {
		more := &window{start: w.start, period: n * w.period, count: w.count / n}
		if at, _ := r.accept(more); at < 0 {
			return more, -1
		}
	}
	return nil, differs
}

// worthwhile reports whether a loop shortens the program enough. A compiler neither fuses operations
// across a loop's iterations nor overlaps them, so few small operations stay as they are.
func worthwhile(w *window) bool {
	switch w.count {
	case 2:
		return w.saved() >= 30
	case 3:
		return w.saved() >= 10
	}
	return true
}

// candidate is a run and its best window.
type candidate struct {
	run
	window    *window
	preferred bool
}

// candidates is a heap: preferred ones, then those that save the most operations, then program order.
type candidates []candidate

// prefer marks those that together save the most operations and do not overlap. Inner repeats are thus
// preferred to a repeat of the whole that saves less.
func (c candidates) prefer() {
	slices.SortFunc(c, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.window.end(), y.window.end()), cmp.Compare(x.window.start, y.window.start), cmp.Compare(x.period, y.period))
	})
	most := make([]int, len(c)+1) // saved by the first i
	before := make([]int, len(c)) // number of those that end before i starts
	for i, x := range c {
		before[i] = sort.Search(i, func(k int) bool { return c[k].window.end() > x.window.start })
		most[i+1] = max(most[i], most[before[i]]+x.window.saved())
	}
	for i := len(c); i > 0; {
		if most[i] == most[i-1] {
			i--
			continue
		}
		c[i-1].preferred = true
		i = before[i-1]
	}
	heap.Init(&c)
}

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	x, y := &c[i], &c[j]
	if x.preferred != y.preferred {
		return x.preferred
	}
	return cmp.Or(cmp.Compare(y.window.saved(), x.window.saved()), cmp.Compare(x.window.start, y.window.start), cmp.Compare(x.period, y.period)) < 0
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	x := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return x
}
