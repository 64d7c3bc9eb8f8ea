package data

import (
	"cmp"
	"slices"
)

// divider divides the rows of a global batch into micro-batches of even work: long rows on one rank
// make all ranks wait. What it does depends on the rows' lengths and the limits of a micro-batch
// alone, so that micro-batches are the same in every world. The heaviest come first: those that
// ranks run at the same time follow one another, and are alike.
//
// Rows go one by one, the longest first, to the micro-batch with the least work that has room
// (longest processing time first, Graham 1969). Rows of one length stay in their order.
type balancer struct {
	work   func(tokens int) float64
	most   int // rows of a micro-batch; 0: as many as tokens allow
	tokens int // of a micro-batch; 0: as many as rows have
	micros int // micro-batches; 0: as few as hold the rows
	rows   []int32
	length []int
	parts  [][]int32
	bins   []bin
}

func newBalancer(c *LoaderConfig) *balancer {
	d := &balancer{work: c.RowCost, tokens: c.MicroBatchTokens}
	n := c.GlobalBatch
	if c.MicroBatchTokens == 0 {
		d.most, d.micros = c.MicroBatchSize, c.Accumulation*c.Ranks
		n = d.most * d.micros
	}
	d.rows, d.length = make([]int32, n), make([]int, n)
	return d
}

// divide gives the places, ascending, of the rows of each micro-batch in a global batch whose row at
// place i has length(i) tokens. The result is valid until the next call.
func (d *balancer) balance(length func(i int) int) [][]int32 {
	same := true
	for i := range d.rows {
		d.rows[i], d.length[i] = int32(i), length(i)
		same = same && d.length[i] == d.length[0]
	}
	if same {
		return d.inOrder()
	}
	slices.SortStableFunc(d.rows, func(a, b int32) int { return cmp.Compare(d.length[b], d.length[a]) })
	micros := d.micros
	if micros == 0 {
		micros = d.divisor(d.least())
	}
	for !d.spread(micros) {
		micros = d.divisor(micros + 1)
	}
	slices.SortStableFunc(d.bins, func(a, b bin) int { return cmp.Or(cmp.Compare(b.work, a.work), cmp.Compare(a.number, b.number)) })
	d.parts = d.parts[:0]
	for _, b := range d.bins {
		slices.Sort(b.rows)
		d.parts = append(d.parts, b.rows)
	}
	return d.parts
}

// inOrder divides rows of one length.
func (d *balancer) inOrder() [][]int32 {
	n, micros := len(d.rows), d.micros
	if micros == 0 {
		fit := d.tokens / max(1, d.length[0])
		micros = d.divisor((n + fit - 1) / fit)
	}
	d.parts = d.parts[:0]
	for m := range micros {
		d.parts = append(d.parts, d.rows[m*n/micros:(m+1)*n/micros])
	}
	return d.parts
}

// divisor is the smallest divisor of the number of rows that is n or more, so that numbers of ranks
// that share the rows evenly share micro-batches evenly too.
func (d *balancer) divisor(n int) int {
	for len(d.rows)%n != 0 {
		n++
	}
	return n
}

// MaxMicroBatches is into how many micro-batches of at most tokens rows are divided that all have
// longest.
func MaxMicroBatches(rows, tokens, longest int) int {
	d := balancer{tokens: tokens, rows: make([]int32, rows), length: []int{longest}}
	return len(d.inOrder())
}

// least is the number of micro-batches that hold the rows where each goes to the first that has
// room, the longest first.
func (d *balancer) least() int {
	var left []int
	for _, r := range d.rows {
		n := d.length[r]
		i := slices.IndexFunc(left, func(free int) bool { return free >= n })
		if i < 0 {
			i = len(left)
			left = append(left, d.tokens)
		}
		left[i] -= n
	}
	return len(left)
}

// spread gives each row to the micro-batch with the least work that has room for it, and says
// whether all had room.
func (d *balancer) spread(micros int) bool {
	d.bins = slices.Grow(d.bins[:0], micros)[:micros]
	open := make([]*bin, micros) // those that may have room
	for i := range d.bins {
		d.bins[i] = bin{number: i, rows: d.bins[i].rows[:0]}
		open[i] = &d.bins[i]
	}
	for _, r := range d.rows {
		n, at := d.length[r], -1
		for i, b := range open {
			if (d.tokens == 0 || b.tokens+n <= d.tokens) && (at < 0 || b.work < open[at].work) {
				at = i
			}
			if at >= 0 && open[at].work == 0 {
				break
			}
		}
		if at < 0 {
			return false
		}
		b := open[at]
		b.rows, b.tokens, b.work = append(b.rows, r), b.tokens+n, b.work+d.work(n)
		if len(b.rows) == d.most {
			open = slices.Delete(open, at, at+1)
		}
	}
	return true
}

// bin is a micro-batch that is being filled.
type bin struct {
	number int
	rows   []int32
	tokens int
	work   float64
}
