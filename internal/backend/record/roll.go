package record

import (
	"container/heap"

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
	Read, Write          bool // by Body

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
// Runs with the most operations go first; see worthwhile.
func (p *Program) Roll() *Rolled {
	r := newRoller(p)
	queue := &candidates{}
	add := func(c candidate) {
		for lo := c.lo; lo < c.hi; lo++ { // the parts that no loop has
			hi := lo
			for hi < c.hi && !r.taken[hi] {
				hi++
			}
			if hi-lo >= 2*c.period {
				heap.Push(queue, candidate{run: run{lo, hi, c.period}, saved: hi - lo - c.period})
			}
			lo = hi
		}
	}
	for _, c := range repeats(r.ids) {
		add(candidate{run: c})
	}
	var accepted []*window
	for queue.Len() > 0 {
		c := heap.Pop(queue).(candidate)
		switch {
		case r.anyTaken(c.lo, c.hi):
			add(c)
		case c.window == nil:
			if w := r.best(c.run); w != nil && worthwhile(w) {
				c.window, c.saved = w, w.saved()
				heap.Push(queue, c)
			}
		default:
			w := c.window
			if at := r.accept(w); at >= 0 { // the run breaks at an operation: try its parts
				if at < w.start+w.period {
					at++
				}
				add(candidate{run: run{c.lo, at, c.period}})
				add(candidate{run: run{at, c.hi, c.period}})
				continue
			}
			accepted = append(accepted, w)
			for i := w.start; i < w.end(); i++ {
				r.taken[i] = true
			}
			add(c)
		}
	}
	return r.build(accepted)
}

// worthwhile reports whether a loop shortens the program enough: each loop has a cost at run time and
// keeps a compiler from fusing across it. Three alike layers compile faster as a loop, whatever
// their size, and so do two large ones.
func worthwhile(w *window) bool { return w.count >= 3 || w.saved() >= 30 }

// candidate is a run, or its best window.
type candidate struct {
	run
	window *window // nil if unknown
	saved  int     // operations; without a window, an upper bound
}

// candidates is a heap: the most saved operations first, then program order.
type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	switch {
	case c[i].saved != c[j].saved:
		return c[i].saved > c[j].saved
	case c[i].lo != c[j].lo:
		return c[i].lo < c[j].lo
	}
	return c[i].period < c[j].period
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	x := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return x
}
