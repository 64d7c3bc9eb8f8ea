package tokenizer

// heap is a binary heap; the first element in order is at the top.
type heap[T ordered[T]] []T

// ordered is the constraint of heap elements.
type ordered[T any] interface{ before(other T) bool }

var (
	_ ordered[candidate] = candidate{}
	_ ordered[queued]    = queued{}
)

// init establishes the heap order.
func (h heap[T]) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// pop removes the top of a non-empty heap.
func (h *heap[T]) pop() T {
	s := *h
	top := s[0]
	s[0] = s[len(s)-1]
	*h = s[:len(s)-1]
	h.down(0)
	return top
}

func (h heap[T]) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(h) {
			return
		}
		if k+1 < len(h) && h[k+1].before(h[k]) {
			k++
		}
		if !h[k].before(h[i]) {
			return
		}
		h[i], h[k] = h[k], h[i]
		i = k
	}
}
