package collective

import (
	"bytes"
	"slices"
)

// others returns the group's other ranks for which keep returns true. The list starts after the caller, so
// that ranks exchange with different peers at a time.
func (o *messages) others(keep func(rank int) bool) (ranks []int) {
	for i := 1; i < len(o.g.ranks); i++ {
		if r := (o.g.me + i) % len(o.g.ranks); keep(r) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func anyRank(int) bool { return true }

// smallDirect exchanges whole contributions between all ranks. Writes do not block: contributions fit the
// socket buffers, and no rank is more than one operation ahead.
func (o *messages) smallDirect() error {
	peers := o.others(anyRank)
	contributions := make([][]byte, len(o.g.ranks))
	var mine []byte
	if o.contributes() {
		mine = o.src
		contributions[o.g.me] = bytes.Clone(mine) // dst may be the same memory
	}
	for _, p := range peers {
		if err := o.sendHeader(p, mine); err != nil {
			return err
		}
	}
	for _, p := range peers {
		b, err := o.header(p, 0)
		if err != nil {
			return err
		}
		if len(b) != len(mine) {
			return o.malformed(p)
		}
		contributions[p] = b
	}
	o.small(func(rank int) []byte { return contributions[rank] })
	return nil
}

// outgoing returns the caller's data for a rank.
func (o *messages) outgoing(rank int) []byte {
	n := len(o.g.ranks)
	part := len(o.src) / n
	switch o.h.Kind {
	case KindAllGather:
		return o.src
	case KindReduceScatter:
		return o.src[o.chunkOf(rank)*part:][:part]
	case KindAllReduce:
		return o.part(o.src, n, rank)
	}
	return o.src[rank*part:][:part]
}

// incoming returns the part of dst that a rank sends: its data, or its part of an AllReduce.
func (o *messages) incoming(rank int) []byte {
	n := len(o.g.ranks)
	if o.h.Kind == KindAllReduce {
		return o.part(o.dst, n, rank)
	}
	part := len(o.dst) / n
	return o.dst[rank*part:][:part]
}

func (o *messages) reduces() bool {
	return o.h.Kind == KindReduceScatter || o.h.Kind == KindAllReduce
}

// window is the number of bytes by which data is ahead of results on all stripes of an AllReduce. The memory that a
// result is sent from, or received in, is still in the cache, and a link with this delay-bandwidth product is busy.
const window = 1 << 20

// largeDirect exchanges data between all ranks: each rank sends its data to every other, sums its part,
// and, in an AllReduce, sends the sums.
func (o *messages) largeDirect() error {
	return o.direct(o.others(anyRank), func() {
		if o.h.Kind == KindAllGather {
			move(o.incoming(o.g.me), o.src)
		}
	})
}

// direct exchanges data with peers in steps. Step i sends every peer chunk i of its data and, in an AllReduce, chunk
// i-lag of the caller's sums. local copies what does not pass between hosts.
func (o *messages) direct(peers []int, local func()) error {
	d := &direct{messages: o, peers: peers}
	for r := range o.g.ranks {
		d.chunks = max(d.chunks, chunksOf(len(o.outgoing(r))).count)
	}
	if o.h.Kind == KindAllReduce {
		d.lag = max(window/chunkBytes/len(peers)/o.stripes, 1) * o.stripes
	}
	summed, sent := o.newSteps(d.chunks), o.newSteps(d.chunks)
	return o.together(append([]func() error{func() error {
		for _, p := range slices.Backward(peers) { // the order in which they send
			if _, err := o.header(p, 0); err != nil {
				return err
			}
		}
		local()
		return o.together(o.striped(func(s int) error { return d.receive(s, summed[s], sent[s]) })...)
	}}, o.striped(func(s int) error { return d.send(s, summed[s], sent[s]) })...)...)
}

type direct struct {
	*messages
	peers  []int
	chunks int // of the longest part
	lag    int // chunks
}

// chunk returns chunk i of b, or nothing.
func chunk(b []byte, i int) []byte {
	if i < 0 {
		return nil
	}
	return chunksOf(len(b)).of(b, i)
}

func (d *direct) send(s int, summed, sent steps) error {
	if s == 0 {
		for _, p := range d.peers {
			if err := d.sendHeader(p, nil); err != nil {
				return err
			}
		}
	}
	data, result := d.label(phaseData), d.label(phaseResult)
	for i := s; i < d.chunks+d.lag; i += d.stripes {
		if i < d.chunks {
			if err := d.sendChunk(s, data.at(0, i), func(p int) []byte { return chunk(d.outgoing(p), i) }); err != nil {
				return err
			}
			sent.done()
		}
		if d.lag == 0 {
			continue
		}
		sum := chunk(d.incoming(d.g.me), i-d.lag)
		if len(sum) > 0 {
			if err := d.awaitStep(summed); err != nil {
				return err
			}
		}
		if err := d.sendChunk(s, result.at(0, i-d.lag), func(int) []byte { return sum }); err != nil {
			return err
		}
	}
	return nil
}

// sendChunk sends a chunk, if it is not empty, to every peer.
func (d *direct) sendChunk(s int, label []byte, of func(peer int) []byte) error {
	for _, p := range d.peers {
		if b := of(p); len(b) > 0 {
			if err := d.write(p, s, label, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// receiveChunk receives a chunk from every peer. The peer that sends to the caller first comes first, so that ranks
// do not wait in a cycle for each other to read.
func (d *direct) receiveChunk(s int, label []byte, of func(peer int) []byte) error {
	for _, p := range slices.Backward(d.peers) {
		if b := of(p); len(b) > 0 {
			if err := d.read(p, s, label, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive receives the peers' data and sums it, or receives it in dst. In an AllReduce the results of others
// replace data that was sent before.
func (d *direct) receive(s int, summed, sent steps) error {
	data, result := d.label(phaseData), d.label(phaseResult)
	sum := d.summer(s)
	for i := s; i < d.chunks+d.lag; i += d.stripes {
		var err error
		switch {
		case i >= d.chunks:
		case d.reduces():
			if err = sum(data, i); err == nil && len(chunk(d.outgoing(d.g.me), i)) > 0 {
				summed.done()
			}
		default:
			err = d.receiveChunk(s, data.at(0, i), func(p int) []byte { return chunk(d.incoming(p), i) })
		}
		if err == nil && d.lag > 0 && i >= d.lag {
			if err = d.awaitStep(sent); err == nil {
				err = d.receiveChunk(s, result.at(0, i-d.lag), func(p int) []byte { return chunk(d.incoming(p), i-d.lag) })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// summer returns a function that receives the peers' chunk i for the caller and reduces them in rank order.
func (d *direct) summer(s int) func(l *label, i int) error {
	g, mine, dst := d.g, d.outgoing(d.g.me), d.dst
	if d.h.Kind == KindAllReduce {
		dst = mine
	}
	in, out := d.h.DType.Size(), d.h.Out.Size()
	c := chunksOf(len(mine))
	hold := slices.Collect(slices.Chunk(g.buffer(s, len(g.ranks)*c.size), max(c.size, 1)))
	srcs := make([][]byte, len(g.ranks))
	return func(l *label, i int) error {
		m := c.of(mine, i)
		if len(m) == 0 {
			return nil
		}
		for r := range srcs {
			srcs[r] = hold[r][:len(m)]
		}
		srcs[g.me] = m
		if err := d.receiveChunk(s, l.at(0, i), func(p int) []byte { return srcs[p] }); err != nil {
			return err
		}
		reduce(dst[i*c.size/in*out:][:len(m)/in*out], d.h.Out, srcs, d.h.DType, d.h.Op, d.accumulate)
		return nil
	}
}
