package generate

import "math"

// candidate is an id that may be drawn. p is its weight; weights need not sum to 1.
type candidate struct {
	id    int32
	logit float32
	p     float64
}

// before orders candidates: the most likely first, equal logits by id.
func (c candidate) before(d candidate) bool {
	return c.logit > d.logit || c.logit == d.logit && c.id < d.id
}

// choose draws an id with u in [0, 1): the one at share u of the kept probability, most likely ids
// first. The time is linear in the vocabulary, because nothing is sorted.
func choose(logits []float32, o Options, u float64) int32 {
	if o.Temperature == 0 {
		return largest(logits)
	}
	c, sum := keep(logits, o)
	n, _ := leading(c, max(u, 0x1p-54)*sum)
	return c[n-1].id
}

// largest returns the first of the largest logits.
func largest(logits []float32) int32 {
	at := 0
	for i, v := range logits {
		if v > logits[at] {
			at = i
		}
	}
	return int32(at)
}

// keep returns the candidates that o keeps, in no order, and the sum of their weights.
func keep(logits []float32, o Options) (c []candidate, sum float64) {
	k := len(logits)
	if o.TopK > 0 {
		k = min(k, o.TopK)
	}
	c = best(logits, k)
	top := c[0].logit
	for _, x := range c {
		top = max(top, x.logit)
	}
	for i := range c {
		c[i].p = math.Exp(float64(c[i].logit-top) / o.Temperature)
		sum += c[i].p
	}
	if o.TopP > 0 && o.TopP < 1 {
		n, reached := leading(c, o.TopP*sum)
		return c[:n], reached
	}
	return c, sum
}

// best returns k candidates of weight 1, the most likely ones, in no order. It holds up to 2k: most
// logits are compared once with the k-th of those before them.
func best(logits []float32, k int) []candidate {
	limit := min(2*k, len(logits))
	c := make([]candidate, 0, limit)
	var floor float32
	floored := false
	for i, v := range logits {
		if floored && !(v > floor) {
			continue
		}
		if c = append(c, candidate{int32(i), v, 1}); len(c) == limit && limit > k {
			leading(c, float64(k))
			c = c[:k]
			floor, floored = c[k-1].logit, true
		}
	}
	if len(c) > k {
		leading(c, float64(k))
		c = c[:k]
	}
	return c
}

// leading moves the fewest candidates, most likely first, whose weights reach target > 0 to the
// beginning of c, and returns their number and weight. The last of them is the least likely; the
// others have no order. It is a quickselect (Hoare 1961) by weight, linear on average.
func leading(c []candidate, target float64) (n int, sum float64) {
	lo, hi := 0, len(c)
	for lo < hi {
		at, front := partition(c[lo:hi])
		at += lo
		if sum+front >= target {
			hi = at
			continue
		}
		sum += front + c[at].p
		if lo = at + 1; sum >= target {
			break
		}
	}
	return lo, sum
}

// partition moves the candidates before a pivot to its left, and returns the pivot's index and the
// weight on its left. The pivot is the median of three.
func partition(c []candidate) (at int, front float64) {
	a, b, last := 0, len(c)/2, len(c)-1
	if c[b].before(c[a]) {
		a, b = b, a
	}
	if c[last].before(c[b]) {
		if b = last; c[b].before(c[a]) {
			b = a
		}
	}
	pivot := c[b]
	c[b] = c[last]
	for i, x := range c[:last] {
		if x.before(pivot) {
			c[i], c[at] = c[at], x
			front += x.p
			at++
		}
	}
	c[last], c[at] = c[at], pivot
	return at, front
}
