package collective

import "bytes"

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

// largeDirect exchanges data between all ranks: each rank sends its data to every other, sums its part,
// and, in an AllReduce, sends the sums.
func (o *messages) largeDirect() error {
	peers := o.others(anyRank)
	most := 0
	for r := range o.g.ranks {
		most = max(most, chunksOf(len(o.outgoing(r))).count)
	}
	summed, sent := o.newSteps(most), o.newSteps(most) // chunks
	return o.together(append([]func() error{func() error {
		for _, p := range peers {
			if _, err := o.header(p, 0); err != nil {
				return err
			}
		}
		if o.h.Kind == KindAllGather {
			move(o.incoming(o.g.me), o.src)
		}
		return o.together(o.striped(func(s int) error {
			if o.reduces() {
				if err := o.sum(s, summed[s]); err != nil {
					return err
				}
			}
			if o.h.Kind != KindReduceScatter {
				return o.receive(s, peers, sent[s])
			}
			return nil
		})...)
	}}, o.striped(func(s int) error {
		if err := o.scatter(s, peers, sent[s]); err != nil || o.h.Kind != KindAllReduce {
			return err
		}
		return o.publish(s, peers, summed[s])
	})...)...)
}

// scatter sends the peers their data.
func (o *messages) scatter(s int, peers []int, sent steps) error {
	if s == 0 {
		for _, p := range peers {
			if err := o.sendHeader(p, nil); err != nil {
				return err
			}
		}
	}
	l := o.label(phaseData)
	for i, more := s, true; more; i += o.stripes {
		more = false
		for _, p := range peers {
			b := o.outgoing(p)
			c := chunksOf(len(b))
			if i >= c.count {
				continue
			}
			if err := o.write(p, s, l.at(0, i), c.of(b, i)); err != nil {
				return err
			}
			more = true
		}
		if more {
			sent.done()
		}
	}
	return nil
}

// sum reduces the ranks' data for the caller in rank order.
func (o *messages) sum(s int, summed steps) error {
	g, mine, dst := o.g, o.outgoing(o.g.me), o.dst
	if o.h.Kind == KindAllReduce {
		dst = mine
	}
	in, out := o.h.DType.Size(), o.h.Out.Size()
	l, c := o.label(phaseData), chunksOf(len(mine))
	hold := g.buffer(s, (len(g.ranks)-1)*c.size)
	srcs := make([][]byte, len(g.ranks))
	for i := s; i < c.count; i += o.stripes {
		m := c.of(mine, i)
		rest := hold
		for r := range srcs {
			if r == g.me {
				srcs[r] = m
				continue
			}
			srcs[r], rest = rest[:len(m)], rest[len(m):]
			if err := o.read(r, s, l.at(0, i), srcs[r]); err != nil {
				return err
			}
		}
		reduce(dst[i*c.size/in*out:][:len(m)/in*out], o.h.Out, srcs, o.h.DType, o.h.Op, o.accumulate)
		summed.done()
	}
	return nil
}

// publish sends the caller's part of an AllReduce, as it is summed.
func (o *messages) publish(s int, peers []int, summed steps) error {
	mine := o.incoming(o.g.me)
	l, c := o.label(phaseResult), chunksOf(len(mine))
	for i := s; i < c.count; i += o.stripes {
		if err := o.awaitStep(summed); err != nil {
			return err
		}
		for _, p := range peers {
			if err := o.write(p, s, l.at(0, i), c.of(mine, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive reads the peers' data into dst. In an AllReduce this overwrites data that was sent before.
func (o *messages) receive(s int, peers []int, sent steps) error {
	phase := byte(phaseData)
	if o.h.Kind == KindAllReduce {
		phase = phaseResult
	}
	l := o.label(phase)
	for i, more := s, true; more; i += o.stripes {
		more = false
		for _, p := range peers {
			b := o.incoming(p)
			c := chunksOf(len(b))
			if i >= c.count {
				continue
			}
			if !more && o.h.Kind == KindAllReduce {
				if err := o.awaitStep(sent); err != nil {
					return err
				}
			}
			if err := o.read(p, s, l.at(0, i), c.of(b, i)); err != nil {
				return err
			}
			more = true
		}
	}
	return nil
}
