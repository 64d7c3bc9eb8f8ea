package collective

// peer is another rank of the group and the lane on which it meets this one.
type peer struct{ rank, lane int }

func (l *lane) peers() []peer {
	n, me := len(l.g.ranks), l.g.me
	switch {
	case l.num == 0:
		ps := make([]peer, 0, n-1)
		for i := 1; i < n; i++ { // each begins after itself, so that not all read one rank at once
			ps = append(ps, peer{(me + i) % n, 0})
		}
		return ps
	case l.num <= n:
		return []peer{{l.num - 1, 1 + n + me}}
	}
	return []peer{{l.num - 1 - n, 1 + me}}
}

// mailed says whether contributions are small enough to travel with the header.
func mailed(h *Header) bool { return int(h.Count)*h.DType.Size() <= MailSize }

// contributes says whether others need the caller's src.
func (w *work) contributes(me int) bool {
	switch w.h.Kind {
	case KindBarrier, KindRecv:
		return false
	case KindBroadcast:
		return int(w.h.Root) == me
	}
	return true
}

// chunkOf is the part of src that a rank receives of a ReduceScatter.
func (w *work) chunkOf(rank int) int {
	if w.chunks == nil {
		return rank
	}
	return w.chunks[rank]
}

// part is what rank r of n sums in an AllReduce of the vector b. Parts begin at multiples of
// 1024 elements, so that no two ranks write one page.
func (w *work) part(b []byte, n, r int) []byte {
	count, size := int(w.h.Count), w.h.DType.Size()
	per := ((count+n-1)/n + 1023) &^ 1023
	return b[min(r*per, count)*size : min((r+1)*per, count)*size]
}

// alone does an operation of a group of one.
func alone(w *work) {
	if w.h.Kind == KindReduceScatter {
		reduce(w.dst, w.h.Out, [][]byte{w.src}, w.h.DType, Sum, w.accumulate)
		return
	}
	move(w.dst, w.src)
}

// move copies, unless both are the same memory.
func move(dst, src []byte) {
	if len(dst) > 0 && &dst[0] != &src[0] {
		copy(dst, src)
	}
}

// small does an operation of which all contributions are there whole; mail is a rank's, and
// at least as long as src.
func (w *work) small(g *group, mail func(rank int) []byte) {
	n := len(w.src)
	all := func(lo, hi int) [][]byte {
		b := make([][]byte, len(g.ranks))
		for r := range b {
			b[r] = mail(r)[lo:hi]
		}
		return b
	}
	switch w.h.Kind {
	case KindAllGather:
		for r := range g.ranks {
			copy(w.dst[r*n:], mail(r)[:n])
		}
	case KindReduceScatter:
		part := n / len(g.ranks)
		lo := w.chunkOf(g.me) * part
		reduce(w.dst, w.h.Out, all(lo, lo+part), w.h.DType, Sum, w.accumulate)
	case KindAllReduce:
		reduce(w.dst, w.h.Out, all(0, n), w.h.DType, w.h.Op, false)
	case KindBroadcast:
		copy(w.dst, mail(int(w.h.Root))[:n])
	case KindAllToAll:
		part := n / len(g.ranks)
		for r := range g.ranks {
			copy(w.dst[r*part:], mail(r)[g.me*part:][:part])
		}
	case KindRecv:
		copy(w.dst, mail(w.lane.num - 1 - len(g.ranks))[:n])
	}
}
