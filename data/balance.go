package data

import (
	"cmp"
	"slices"
)

// balancer splits the rows of a global batch into micro-batches of equal cost: long rows on one
// rank make all ranks wait. The result depends on the row lengths and the limits of a micro-batch
// alone, so it is the same for any number of ranks. Micro-batches are ordered by descending cost,
// so those that ranks run at the same time are alike.
//
// Each row, longest first, goes to the micro-batch with the lowest cost that has room (longest
// processing time first, Graham 1969). Rows of equal length stay in order.
type balancer struct {
	cost    func(n int) float64
	maxRows int // rows per micro-batch; 0: limited by tokens alone
	tokens  int // per micro-batch; 0: limited by rows alone
	micros  int // number of micro-batches; 0: as few as hold the rows
	rows    []int32
	length  []int
	parts   [][]int32
	bins    []bin
}

func newBalancer(c *LoaderConfig) *balancer {
	d := &balancer{cost: c.RowCost, tokens: c.MicroBatchTokens}
	n := c.GlobalBatch
	if c.MicroBatchTokens == 0 {
		n = c.rows()
		d.maxRows, d.micros = c.MicroBatchSize, n/c.MicroBatchSize
	}
	d.rows, d.length = make([]int32, n), make([]int, n)
	return d
}

// balance returns, for each micro-batch, the ascending positions of its rows in a global batch
// where row i has length(i) tokens. The result is valid until the next call.
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
		micros = d.divisor(d.firstFit())
	}
	for !d.spread(micros) {
		micros = d.divisor(micros + 1)
	}
	slices.SortStableFunc(d.bins, func(a, b bin) int { return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.number, b.number)) })
	d.parts = d.parts[:0]
	for _, b := range d.bins {
		slices.Sort(b.rows)
		d.parts = append(d.parts, b.rows)
	}
	return d.parts
}

// inOrder splits rows of equal length.
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

// divisor returns the smallest divisor of the number of rows that is at least n, so that ranks that
// share the rows evenly share the micro-batches evenly too.
func (d *balancer) divisor(n int) int {
	for len(d.rows)%n != 0 {
		n++
	}
	return n
}

// MaxMicroBatches returns the number of micro-batches of up to tokens tokens for rows that all have
// length longest.
func MaxMicroBatches(rows, tokens, longest int) int {
	d := balancer{tokens: tokens, rows: make([]int32, rows), length: []int{longest}}
	return len(d.inOrder())
}

// firstFit returns the number of micro-batches if each row, longest first, goes to the first that
// has room.
func (d *balancer) firstFit() int {
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

// spread gives each row to the micro-batch with the lowest cost that has room, and reports whether
// all rows fit.
func (d *balancer) spread(micros int) bool {
	d.bins = slices.Grow(d.bins[:0], micros)[:micros]
	open := make([]*bin, micros) // with room
	for i := range d.bins {
		d.bins[i] = bin{number: i, rows: d.bins[i].rows[:0]}
		open[i] = &d.bins[i]
	}
	for _, r := range d.rows {
		n, at := d.length[r], -1
		for i, b := range open {
			if (d.tokens == 0 || b.tokens+n <= d.tokens) && (at < 0 || b.cost < open[at].cost) {
				at = i
			}
			if at >= 0 && open[at].cost == 0 {
				break
			}
		}
		if at < 0 {
			return false
		}
		b := open[at]
		b.rows, b.tokens, b.cost = append(b.rows, r), b.tokens+n, b.cost+d.cost(n)
		if len(b.rows) == d.maxRows {
			open = slices.Delete(open, at, at+1)
		}
	}
	return true
}

// bin is a micro-batch being filled.
type bin struct {
	number int
	rows   []int32
	tokens int
	cost   float64
}
