package cpu

import (
	"cmp"
	"math"
	"slices"

	"trireme/internal/kernel"
)

// backwardTask is a part of the gradients of one key and value head.
type backwardTask struct {
	seq  *attentionSeq
	head int
	part kernel.AttentionPart
	cost float64 // products times pairs of a query and a key
}

// Products of a pair: scores and gradients of probabilities, with dq, with dk and dv, and with all three.
const (
	queryProducts = 3
	keyProducts   = 4
	allProducts   = 5
)

// fullTask is task i of those that are one per sequence and head, the longest sequences first.
func (c *attentionCall) fullTask(i int) backwardTask {
	s := &c.seqs[i/c.p.KVHeads]
	return c.backwardTask(s, i%c.p.KVHeads, kernel.AttentionPart{Q1: s.n, K1: s.n})
}

// backwardTasks returns the number of tasks of a backward pass and task i: one per sequence and head, or, where threads would
// wait for the longest of them, parts of the keys and of the queries of each, though they have more products in all.
func (c *attentionCall) backwardTasks(threads int) (n int, task func(i int) backwardTask) {
	n = len(c.seqs) * c.p.KVHeads
	if threads == 1 || n >= 4*threads {
		return n, c.fullTask
	}
	var parts []backwardTask
	for i := range n {
		s, head := &c.seqs[i/c.p.KVHeads], i%c.p.KVHeads
		share := s.square() * float64(4*threads) / (c.squares * float64(c.p.KVHeads)) // of all tasks that are wanted
		across := func(products float64, add func(lo, hi int)) {
			count := min(s.blocks(), max(1, int(math.Ceil(share*products/(queryProducts+keyProducts)))))
			for k := range count {
				add(k*s.blocks()/count*kernel.AttentionBlock, min(s.n, (k+1)*s.blocks()/count*kernel.AttentionBlock))
			}
		}
		across(keyProducts, func(lo, hi int) {
			parts = append(parts, c.backwardTask(s, head, kernel.AttentionPart{K0: lo, K1: hi}))
		})
		across(queryProducts, func(lo, hi int) {
			parts = append(parts, c.backwardTask(s, head, kernel.AttentionPart{Q0: lo, Q1: hi}))
		})
	}
	slices.SortStableFunc(parts, func(a, b backwardTask) int { return cmp.Compare(b.cost, a.cost) })
	if busiest(len(parts), threads, func(i int) float64 { return parts[i].cost }) < busiest(n, threads, func(i int) float64 { return c.fullTask(i).cost }) {
		return len(parts), func(i int) backwardTask { return parts[i] }
	}
	return n, c.fullTask
}

func (c *attentionCall) backwardTask(s *attentionSeq, head int, part kernel.AttentionPart) backwardTask {
	t := backwardTask{seq: s, head: head, part: part}
	switch {
	case part.K0 == part.K1:
		t.cost = queryProducts * c.pairs(s, part.Q0, part.Q1)
	case part.Q0 == part.Q1: // the causal mask is symmetric: key n-1-i is seen by i+1 queries
		t.cost = keyProducts * c.pairs(s, s.n-part.K1, s.n-part.K0)
	default:
		t.cost = allProducts * c.pairs(s, 0, s.n)
	}
	return t
}

// pairs is the number of pairs of queries [lo,hi) and the keys that they see, without windows and documents.
func (c *attentionCall) pairs(s *attentionSeq, lo, hi int) float64 {
	if c.p.Causal {
		return float64(hi-lo) * float64(lo+hi+1) / 2
	}
	return float64(hi-lo) * float64(s.n)
}

// busiest returns the cost of the thread that ends last, if each takes the next of n tasks when it is free.
func busiest(n, threads int, cost func(i int) float64) float64 {
	busy := make([]float64, threads)
	for i := range n {
		busy[slices.Index(busy, slices.Min(busy))] += cost(i)
	}
	return slices.Max(busy)
}
