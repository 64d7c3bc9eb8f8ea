package kernel

import (
	"runtime"
	"sync/atomic"
	"time"

	"trireme/internal/impl"
)

// tasks gives a product's threads their work. A product is a sequence of stages, one for each packed block of b: parts of
// the block are packed, then chunks of rows of c are multiplied. Threads take tasks one by one in this order, so some pack the
// next block while others multiply by the last one. A task waits only for tasks that threads have taken before it. Of a stage's
// chunks a thread takes those of its share first.
type tasks struct {
	threads               int
	stages, parts, chunks int
	buffers               int                          // packed blocks at a time, up to maxBuffers
	continued             bool                         // a chunk that is not the first of its sums continues those of the stage before
	next                  atomic.Int64                 // task
	packed, done          [2 * maxBuffers]atomic.Int64 // parts and chunks that are done, over the stages with these counters (slots)
	taken                 Shares                       // chunks that are taken, of stages as in packed
	reached               []atomic.Int64               // stages done of each chunk, if continued
	failed                atomic.Bool
}

const maxBuffers = 8

// slots is the number of stages that have counters of their own: stage s has those of stage s-slots, which is done then, because
// packing s waits for stage s-buffers, whose packing waited for stage s-2*buffers.
func (t *tasks) slots() int { return 2 * t.buffers }

// task is a part of a stage to pack, or a chunk to multiply.
type task struct {
	packs    bool
	stage, i int
}

// take returns a thread's next task, after those that it needs are done; false if none is left, or a thread has failed.
func (t *tasks) take(thread int) (task, bool) {
	n, each := int(t.next.Add(1))-1, t.parts+t.chunks
	x := task{n%each < t.parts, n / each, n % each}
	if x.stage >= t.stages {
		return x, false
	}
	if x.packs {
		last := x.stage - t.buffers
		return x, last < 0 || t.await(&t.done[last%t.slots()], t.chunks*(last/t.slots()+1))
	}
	if !t.await(&t.packed[x.stage%t.slots()], t.parts*(x.stage/t.slots()+1)) {
		return x, false
	}
	x.i = t.chunk(x.stage, thread)
	return x, !t.continued || t.await(&t.reached[x.i], x.stage)
}

// chunk takes one of a stage's chunks. One is left for each task.
func (t *tasks) chunk(stage, thread int) int {
	n := len(t.taken) / t.slots()
	i, _ := t.taken[stage%t.slots()*n:][:n].Take(t.chunks, stage/t.slots(), thread, t.threads)
	return i
}

// end marks a task as done, for all threads.
func (t *tasks) end(x task) {
	if x.packs {
		t.packed[x.stage%t.slots()].Add(1)
		return
	}
	if t.continued {
		t.reached[x.i].Add(1)
	}
	t.done[x.stage%t.slots()].Add(1)
}

// looks is the number of looks before a waiting thread sleeps, some 0.1 ms: then the thread that it waits for probably has no
// processor, because other programs run.
const looks = 1 << 15

// await waits until a counter is n; false if a thread has failed.
func (t *tasks) await(counter *atomic.Int64, n int) bool {
	for i := 1; counter.Load() < int64(n); i++ {
		switch {
		case t.failed.Load():
			return false
		case i > looks:
			time.Sleep(20 * time.Microsecond)
		case i%64 == 0:
			runtime.Gosched()
		}
	}
	return true
}

// leave is deferred by a thread that takes tasks. If it panics, the others must not wait for it.
func (t *tasks) leave(ended *bool) {
	if !*ended {
		t.failed.Store(true)
	}
}

// Chunks of a stage for each thread. More of them balance load. A transposed a is read in longer runs if more rows are packed together.
const (
	chunksEach     = 16
	transposedEach = 4
)

// splitRows returns the rows of a chunk, a multiple of unit; pack are packed together.
func splitRows(rows, threads, unit, pack int, transposed bool) int {
	switch {
	case threads == 1:
		return rows
	case transposed:
		return min(pack, roundUp(count(rows, transposedEach*threads), unit))
	}
	n := roundUp(count(rows, chunksEach*threads), unit)
	if n > pack {
		n = roundUp(n, pack)
	}
	return n
}

// splitColumns narrows blocks of cols columns until threads have a few tasks each, of a tile's rows.
func splitColumns(m, n, tileRows, tileCols, cols, threads int) int {
	for threads > 1 && cols > tileCols {
		tasks := count(m, tileRows) * count(n, cols)
		if tasks >= 4*threads || cols <= 2*tileCols && tasks >= 2*threads {
			break
		}
		cols = roundUp(cols/2, tileCols)
	}
	return cols
}

// deepen returns the depth and the columns of blocks for a product of depth k: those of a largest block, of depth x most, narrowed to
// cols, which may be deeper instead. If tiles of rows are few for the threads, blocks are as deep as the product, so that threads
// multiply by several blocks at once: a chunk of rows that continues sums waits for the block before.
func deepen(k, depth, most, cols, panel, threads, tiles int) (int, int) {
	if tiles < threads && k > depth*(most/cols) {
		return k, min(cols, max(panel, depth*most/k/panel*panel))
	}
	return depth * (most / cols), cols
}

// FewRows reports whether a product of m rows is faster if threads compute parts of its columns as products of their own: it has
// too few tiles of rows for them, and packing its blocks is much of the work.
func FewRows(parts Parts, a, b Matrix, m, threads int) bool {
	tile := gemmShapes[impl.Current()].mr
	if parts.ByTiles(a, b) {
		tile = tileRows
	}
	return fewRows(m, tile, threads)
}

func fewRows(m, tile, threads int) bool { return m <= 4*tile || count(m, tile)*maxBuffers < threads }

// grid is the stages of a product, for blocks of rows x cols of c and depth of k, k innermost.
type grid struct {
	m, n, k           int
	rows, cols, depth int
	chunk             int // rows
	threads           int
}

func count(n, size int) int { return (n + size - 1) / size }

func (g *grid) stages() int { return count(g.m, g.rows) * count(g.n, g.cols) * count(g.k, g.depth) }

// continued reports whether sums take several blocks of k.
func (g *grid) continued() bool { return g.k > g.depth }

// block returns a stage's rows and columns of c, and its first of k and their number.
func (g *grid) block(stage int) (i0, i1, j0, j1, k0, kb int) {
	depths, across := count(g.k, g.depth), count(g.n, g.cols)
	k0, j0, i0 = stage%depths*g.depth, stage/depths%across*g.cols, stage/(depths*across)*g.rows
	return i0, min(i0+g.rows, g.m), j0, min(j0+g.cols, g.n), k0, min(g.depth, g.k-k0)
}

// chunkRows returns the rows of a chunk of a stage that start at i0 and end before i1.
func (g *grid) chunkRows(chunk, i0, i1 int) (first, end int) {
	first = i0 + chunk*g.chunk
	return first, min(i1, first+g.chunk)
}

// packParts is the number of parts in which threads pack a block. panel is the width of a panel.
func (g *grid) packParts(panel int) int {
	if g.threads == 1 {
		return 1
	}
	return min(2*g.threads, count(g.cols, panel))
}

// share returns the first columns, and those after the last, of a part of n columns.
func (g *grid) share(n, part, panel int) (lo, hi int) {
	panels, parts := count(n, panel), g.packParts(panel)
	return panels * part / parts * panel, min(n, panels*(part+1)/parts*panel)
}
