package collective

import (
	"fmt"
	"slices"
	"sync/atomic"

	"trireme/tensor"
)

// hosts runs a large operation in which data passes between hosts once. It is divided into slices; the
// k-th rank of every host moves slice k, so the number of movers is the rank count of the smallest host. A
// mover reads the data of its host's ranks from their memory. It publishes its progress on each stripe in a
// clock, and the other ranks of the host copy from its memory.
type hosts struct {
	*messages
	slices int
	shown  [][]byte // the exposed data of this host's ranks
	dsts   [][]byte // their dst, if sums start with it
	target []byte   // for data from other hosts; exposed if there is Memory

	// moved counts the caller's published steps by stripe, as the clocks do: the race detector does not
	// see atomic operations on memory outside Go's.
	moved [MaxStripes]atomic.Uint32
}

// throughHosts prepares the operation, runs it and waits until this host's ranks have finished.
func (o *messages) throughHosts(run func(*hosts) error) error {
	g := o.g
	h := &hosts{messages: o, slices: len(g.hosts[0])}
	for _, ranks := range g.hosts {
		h.slices = min(h.slices, len(ranks))
	}
	if g.mem == nil {
		h.shown, h.dsts, h.target = [][]byte{o.src}, [][]byte{o.dst}, o.dst
		return run(h)
	}
	peers := o.peers()
	h.expose()
	defer h.unexpose()
	if err := o.join(peers); err != nil {
		return err
	}
	if err := h.find(peers); err != nil {
		return err
	}
	if err := run(h); err != nil {
		return err
	}
	o.tick(done)
	o.since = o.began
	return o.await(peers, done)
}

// Slots of the first progress channel.
const (
	targetSlot = iota
	dstSlot
)

// expose exposes the memory that the caller receives in, and its dst if sums start with it.
func (h *hosts) expose() {
	g := h.g
	ch := g.progressChannel(1)
	for s := range h.stripes {
		atomic.StoreUint32(&g.mem.State(g.here, g.progressChannel(s)).Clock, 0)
	}
	switch {
	case h.h.Kind == KindAllGather:
		h.target = g.mem.Expose(ch, targetSlot, h.dst)
	case h.h.Kind == KindReduceScatter && g.here < h.slices:
		n := max(len(g.local)*h.sliceOf(g.here).bytes(h.h.Out.Size()), 1)
		if a := g.w.t.Arena(); a != nil {
			h.target = g.mem.Expose(ch, targetSlot, a.Alloc(n))
		} else {
			h.target = g.mem.Expose(ch, targetSlot, make([]byte, n))
		}
	}
	if h.accumulate {
		g.mem.Expose(ch, dstSlot, h.dst)
	}
}

func (h *hosts) unexpose() {
	g := h.g
	ch := g.progressChannel(1)
	g.mem.Unexpose(0, int(h.h.Seq&1))
	g.mem.Unexpose(ch, targetSlot)
	g.mem.Unexpose(ch, dstSlot)
	if a := g.w.t.Arena(); a != nil && h.h.Kind == KindReduceScatter && h.target != nil {
		a.Free(h.target)
	}
}

// find reads where this host's ranks have exposed memory.
func (h *hosts) find(peers []peer) (err error) {
	g := h.g
	if h.shown, err = h.operation.shown(peers); err != nil {
		return err
	}
	if h.h.Kind == KindAllReduce {
		h.target = h.exposed
	}
	h.dsts = make([][]byte, len(g.local))
	for _, p := range peers {
		if h.accumulate {
			h.dsts[p.rank], err = g.mem.Exposed(p.rank, g.progressChannel(1), dstSlot)
			if err == nil && len(h.dsts[p.rank]) != len(h.dst) {
				err = errExpose
			}
			if err != nil {
				return err
			}
		}
	}
	h.dsts[g.here] = h.dst
	return nil
}

// running is the type of running sums.
func (h *hosts) running() tensor.DType {
	if t := h.h.DType; t == tensor.BF16 || t == tensor.F16 {
		return tensor.F32
	}
	return h.h.DType
}

// slice is a range of elements.
type slice struct{ lo, hi int }

func (s slice) bytes(elem int) int { return (s.hi - s.lo) * elem }

// sliceOf returns the elements of slice k: of each rank's part, or of the vector of an AllReduce.
func (h *hosts) sliceOf(k int) slice {
	n := int(h.h.Count)
	if h.h.Kind == KindReduceScatter {
		n /= len(h.g.ranks)
	}
	per := ((n+h.slices-1)/h.slices + 1023) &^ 1023
	return slice{min(k*per, n), min((k+1)*per, n)}
}

// onHost reports whether a group rank is on this host.
func (h *hosts) onHost(rank int) bool { return slices.Contains(h.g.local, rank) }

// hostOf returns the host of a group rank.
func (h *hosts) hostOf(rank int) int {
	return slices.IndexFunc(h.g.hosts, func(ranks []int) bool { return slices.Contains(ranks, rank) })
}

// mover returns the rank of another host that moves the caller's slice.
func (h *hosts) mover(host int) int { return h.g.hosts[host][h.g.here] }

// moves reports whether the caller moves a slice.
func (h *hosts) moves() bool { return h.g.here < h.slices }

// joinMovers compares headers with the movers of other hosts, up and down the tree. All operations start on
// the tree, so ranks that called different ones find it out.
func (h *hosts) joinMovers() error {
	n, me := len(h.g.hosts), h.g.host
	l := h.label(phaseResult)
	for _, c := range children(me, n) {
		if _, err := h.header(h.mover(c), 0); err != nil {
			return err
		}
	}
	if me > 0 {
		up := h.mover(parent(me))
		if err := h.sendHeader(up, nil); err != nil {
			return err
		}
		if err := h.read(up, 0, l.at(0, 0), nil); err != nil {
			return err
		}
	}
	for _, c := range slices.Backward(children(me, n)) { // the farthest has the most below it
		if err := h.write(h.mover(c), 0, l.at(0, 0), nil); err != nil {
			return err
		}
	}
	return nil
}

// items returns the number of items of the caller's slice.
func (h *hosts) items(ranks []int) (n int) {
	_ = h.divide(h.g.here, ranks, func(item) error { n++; return nil })
	return n
}

// published counts a step of a stripe.
func (h *hosts) published(stripe int) {
	if m := h.g.mem; m != nil {
		ch := h.g.progressChannel(stripe)
		h.moved[stripe].Add(1)
		atomic.AddUint32(&m.State(h.g.here, ch).Clock, 1)
		m.Wake(ch)
	}
}

// item is a step of a slice: some elements of a rank's part or, in an AllReduce, of the vector. Items of a
// stripe are passed on in their order.
type item struct {
	index  int // of all items; the stripe is the remainder
	rank   int // group rank that has or gets the part
	lo, hi int // elements of the part
}

func (h *hosts) stripe(i item) int { return i.index % h.stripes }

// nth returns an item of slice k of the ranks' parts, chunk by chunk, or false after the last. The part of
// an AllReduce is the vector, of a single rank.
func (h *hosts) nth(k int, ranks []int, index int) (item, bool) {
	s := h.sliceOf(k)
	elem := max(h.h.DType.Size(), h.running().Size())
	step := chunksOf(s.bytes(elem)).size / elem
	lo := s.lo + index/len(ranks)*step
	return item{index, ranks[index%len(ranks)], lo, min(lo+step, s.hi)}, lo < s.hi
}

// divide calls f for the items of slice k.
func (h *hosts) divide(k int, ranks []int, f func(i item) error) error {
	for index := 0; ; index++ {
		i, ok := h.nth(k, ranks, index)
		if !ok {
			return nil
		}
		if err := f(i); err != nil {
			return err
		}
	}
}

// onStripe calls f for the items of a stripe of the caller's slice.
func (h *hosts) onStripe(stripe int, ranks []int, f func(i item) error) error {
	for index := stripe; ; index += h.stripes {
		i, ok := h.nth(h.g.here, ranks, index)
		if !ok {
			return nil
		}
		if err := f(i); err != nil {
			return err
		}
	}
}

// count counts the items that a mover of this host publishes.
type count [MaxStripes]uint32

// await counts an item. If the caller needs it, it waits until the mover has it.
func (h *hosts) await(n *count, mover int, i item, need bool) error {
	n[h.stripe(i)]++
	if !need {
		return nil
	}
	err := h.awaitProgress(mover, h.stripe(i), n[h.stripe(i)])
	h.moved[h.stripe(i)].Load()
	return err
}

// moverMemory returns the memory in which a mover of this host receives.
func (h *hosts) moverMemory(k int) ([]byte, error) {
	if k == h.g.here {
		return h.target, nil
	}
	if h.h.Kind == KindAllReduce {
		return h.shown[k], nil
	}
	b, err := h.g.mem.Exposed(k, h.g.progressChannel(1), targetSlot)
	if err != nil {
		return nil, err
	}
	want := len(h.dst)
	if h.h.Kind == KindReduceScatter {
		want = max(len(h.g.local)*h.sliceOf(k).bytes(h.h.Out.Size()), 1)
	}
	if len(b) != want {
		return nil, fmt.Errorf("%w: %d bytes, not %d", errExpose, len(b), want)
	}
	return b, nil
}
