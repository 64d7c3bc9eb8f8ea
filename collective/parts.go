package collective

// NumChannels is the number of channels per rank of a Memory of n ranks.
func NumChannels(n int) int { return 1 + 2*n + MaxStripes }

// progressChannel is the channel in which a rank publishes its progress on a stripe.
func (g *group) progressChannel(stripe int) int { return 1 + 2*len(g.local) + stripe }

// peer is another rank, numbered in the Memory, and its channel for the operation.
type peer struct{ rank, ch int }

// channel returns the caller's channel in the Memory.
func (o *operation) channel() int {
	switch {
	case o.ch == 0:
		return 0
	case o.h.Kind == KindSend:
		return 1 + o.g.memoryRank(o.peer)
	}
	return 1 + len(o.g.local) + o.g.memoryRank(o.peer)
}

// memoryRank returns the rank in the Memory of a group rank of this host.
func (g *group) memoryRank(rank int) int { return rank - g.local[0] }

// peers returns the other ranks of the operation in the Memory.
func (o *operation) peers() []peer {
	n, me := len(o.g.local), o.g.here
	switch {
	case o.ch == 0:
		ps := make([]peer, 0, n-1)
		for i := 1; i < n; i++ { // start after me, so that ranks read different peers at a time
			ps = append(ps, peer{(me + i) % n, 0})
		}
		return ps
	case o.h.Kind == KindSend:
		return []peer{{o.g.memoryRank(o.peer), 1 + n + me}}
	}
	return []peer{{o.g.memoryRank(o.peer), 1 + me}}
}

func inSlot(h *Header) bool { return int(h.Count)*h.DType.Size() <= SlotDataSize }

func (o *operation) contributes() bool { return o.h.Kind != KindBarrier && o.h.Kind != KindRecv }

// chunkOf returns the chunk of src that a rank receives from a ReduceScatter.
func (o *operation) chunkOf(rank int) int {
	if o.chunks == nil {
		return rank
	}
	return o.chunks[rank]
}

// part returns the part of the vector b that rank r of n sums in an AllReduce. Parts start at multiples
// of 1024 elements, so that no two ranks write a page.
func (o *operation) part(b []byte, n, r int) []byte {
	count, size := int(o.h.Count), o.h.DType.Size()
	per := ((count+n-1)/n + 1023) &^ 1023
	return b[min(r*per, count)*size : min((r+1)*per, count)*size]
}

func (o *operation) single() {
	if o.h.Kind == KindReduceScatter {
		reduce(o.dst, o.h.Out, [][]byte{o.src}, o.h.DType, Sum, o.accumulate)
		return
	}
	move(o.dst, o.src)
}

// move copies src to dst, unless they are the same memory.
func move(dst, src []byte) {
	if len(dst) > 0 && &dst[0] != &src[0] {
		copy(dst, src)
	}
}

// small runs an operation after all contributions have arrived in full. data returns a rank's
// contribution, which is at least as long as src.
func (o *operation) small(data func(rank int) []byte) {
	g, n := o.g, len(o.src)
	all := func(lo, hi int) [][]byte {
		b := make([][]byte, len(g.ranks))
		for r := range b {
			b[r] = data(r)[lo:hi]
		}
		return b
	}
	switch o.h.Kind {
	case KindAllGather:
		for r := range g.ranks {
			copy(o.dst[r*n:], data(r)[:n])
		}
	case KindReduceScatter:
		part := n / len(g.ranks)
		lo := o.chunkOf(g.me) * part
		reduce(o.dst, o.h.Out, all(lo, lo+part), o.h.DType, Sum, o.accumulate)
	case KindAllReduce:
		reduce(o.dst, o.h.Out, all(0, n), o.h.DType, o.h.Op, false)
	case KindAllToAll:
		part := n / len(g.ranks)
		for r := range g.ranks {
			copy(o.dst[r*part:], data(r)[g.me*part:][:part])
		}
	case KindRecv:
		copy(o.dst, data(o.peer)[:n])
	}
}
