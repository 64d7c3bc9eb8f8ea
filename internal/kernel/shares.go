package kernel

import "sync/atomic"

// Shares counts the items of a sequence that threads have taken. A thread takes the adjacent ones of its share first, so the
// same rows of one operation after the other are mostly in the caches of the same processors, and then those that others have left.
// Many threads have shares in groups of neighbors.
type Shares []counter

// counter is on a cache line of its own.
type counter struct {
	atomic.Int64
	_ [56]byte
}

const maxShares = 16

// NewShares returns the shares of a number of threads.
func NewShares(threads int) Shares { return make(Shares, shareCount(threads)) }

func shareCount(threads int) int { return min(threads, maxShares) }

// Take returns the next of n items for a thread in [0, threads), and false if none is left. In round r all items have been taken r
// times before.
func (s Shares) Take(n, round, thread, threads int) (int, bool) {
	home := thread * len(s) / threads
	for i := range s {
		share := (home + i) % len(s)
		first, size := n*share/len(s), n*(share+1)/len(s)-n*share/len(s)
		for k := s[share].Load(); int(k) < (round+1)*size; k = s[share].Load() {
			if s[share].CompareAndSwap(k, k+1) {
				return first + int(k) - round*size, true
			}
		}
	}
	return 0, false
}
