package collective

import "slices"

// A chain passes running sums from host to host: each adds the data of its ranks, so the order of the sum
// is the order of ranks. A host sends every byte of the sum once, however many ranks it has.

func (h *hosts) first() bool { return h.g.host == 0 }
func (h *hosts) last() bool  { return h.g.host == len(h.g.hosts)-1 }
func (h *hosts) prev() int   { return h.mover(h.g.host - 1) }
func (h *hosts) next() int   { return h.mover(h.g.host + 1) }

// add adds the data of this host's ranks to a running sum: elements lo to hi of shown. It reads that sum
// into run, unless this is the first host. The result is in run, or in the data of the only rank. In
// dst, if not nil, it is a complete sum.
func (h *hosts) add(l *label, i item, lo, hi int, run, dst []byte, begun bool) ([]byte, error) {
	st, in, rt := h.h.DType, h.h.DType.Size(), h.running()
	srcs := make([][]byte, 0, len(h.shown)+1)
	for _, b := range h.shown {
		srcs = append(srcs, b[lo*in:hi*in])
	}
	run = run[:(hi-lo)*rt.Size()]
	if !h.first() {
		if err := h.read(h.prev(), h.stripe(i), l.at(0, i.index), run); err != nil {
			return nil, err
		}
		begun = true
	}
	switch {
	case dst != nil && st == rt && h.h.Out == rt: // no extra pass
		if begun {
			srcs = slices.Insert(srcs, 0, run)
		}
		reduce(dst, rt, srcs, st, h.h.Op, false)
		return dst, nil
	case dst == nil && !begun && len(srcs) == 1 && st == rt:
		return srcs[0], nil
	}
	reduce(run, rt, srcs, st, h.h.Op, begun)
	if dst != nil {
		reduce(dst, h.h.Out, [][]byte{run}, rt, h.h.Op, false)
		return dst, nil
	}
	return run, nil
}

// chunkBuffer returns a buffer of a stripe for n chunks of running sums.
func (h *hosts) chunkBuffers(stripe, n int) [][]byte {
	b := h.g.buffer(stripe, n*chunkBytes)
	return slices.Collect(slices.Chunk(b, chunkBytes))
}

// allReduce passes sums from the first host to the last, and results from the last to the first.
func (h *hosts) allReduce() error {
	vector := []int{0}
	fs := []func() error{func() error { return h.collectVector(vector) }}
	if h.moves() {
		if err := h.joinMovers(); err != nil {
			return err
		}
		sent := h.newSteps(h.items(vector))
		fs = append(fs, h.striped(func(s int) error { return h.forwardVector(s, vector, sent[s]) })...)
		if !h.last() {
			fs = append(fs, h.striped(func(s int) error { return h.backwardVector(s, vector, sent[s]) })...)
		}
	}
	return h.together(fs...)
}

func (h *hosts) forwardVector(s int, vector []int, sent steps) error {
	sum, result := h.label(phaseSum), h.label(phaseResult)
	run := h.chunkBuffers(s, 1)[0]
	out := h.h.Out.Size()
	return h.onStripe(s, vector, func(i item) error {
		var dst []byte
		if h.last() {
			dst = h.target[i.lo*out : i.hi*out]
		}
		b, err := h.add(sum, i, i.lo, i.hi, run, dst, false)
		if err != nil {
			return err
		}
		if !h.last() {
			err := h.write(h.next(), s, sum.at(0, i.index), b)
			sent.done()
			return err
		}
		h.published(s)
		return h.write(h.prev(), s, result.at(0, i.index), b)
	})
}

// backwardVector receives results in the memory of data that was sent before.
func (h *hosts) backwardVector(s int, vector []int, sent steps) error {
	l, out := h.label(phaseResult), h.h.Out.Size()
	return h.onStripe(s, vector, func(i item) error {
		if err := h.awaitStep(sent); err != nil {
			return err
		}
		b := h.target[i.lo*out : i.hi*out]
		if err := h.read(h.next(), s, l.at(0, i.index), b); err != nil {
			return err
		}
		h.published(s)
		if h.first() {
			return nil
		}
		return h.write(h.prev(), s, l.at(0, i.index), b)
	})
}

// collectVector copies results from the memory of this host's movers.
func (h *hosts) collectVector(vector []int) error {
	if h.g.mem == nil {
		return nil
	}
	out := h.h.Out.Size()
	for k := range h.slices {
		from, err := h.moverMemory(k)
		if err != nil {
			return err
		}
		var n count
		if err := h.divide(k, vector, func(i item) error {
			if err := h.await(&n, k, i, true); err != nil {
				return err
			}
			move(h.dst[i.lo*out:i.hi*out], from[i.lo*out:i.hi*out])
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// reduceScatter passes sums from the first host to the last, which sends each rank's part to its host. If
// sums start with dst, the ranks' hosts send that to the first host.
func (h *hosts) reduceScatter() error {
	all := make([]int, len(h.g.ranks))
	for r := range all {
		all[r] = r
	}
	fs := []func() error{func() error { return h.collectParts(all) }}
	if h.moves() {
		if err := h.joinMovers(); err != nil {
			return err
		}
		taken := h.newSteps(h.items(all)) // first terms of this host
		fs = append(fs, h.striped(func(s int) error { return h.forwardParts(s, all, taken[s]) })...)
		if !h.first() && h.accumulate {
			fs = append(fs, h.striped(func(s int) error { return h.sendFirstTerms(s, all, taken[s]) })...)
		}
		if !h.last() {
			fs = append(fs, h.striped(func(s int) error { return h.receiveParts(s, all, taken[s]) })...)
		}
	}
	return h.together(fs...)
}

// position returns the memory in which a mover of this host has an item of a local rank's part.
func (h *hosts) position(k int, i item, memory []byte) []byte {
	out, s := h.h.Out.Size(), h.sliceOf(k)
	if h.g.mem == nil {
		return memory[i.lo*out : i.hi*out]
	}
	at := (i.rank-h.g.local[0])*s.bytes(out) - s.lo*out
	return memory[at+i.lo*out : at+i.hi*out]
}

func (h *hosts) forwardParts(s int, all []int, taken steps) error {
	sum, result, firstTerm := h.label(phaseSum), h.label(phaseResult), h.label(phaseFirst)
	part, out := int(h.h.Count)/len(all), h.h.Out
	work := h.chunkBuffers(s, 2)
	run, complete := work[0], work[1]
	return h.onStripe(s, all, func(i item) error {
		begun := h.first() && h.accumulate
		if begun {
			b := complete[:(i.hi-i.lo)*out.Size()]
			if h.onHost(i.rank) {
				b = h.dsts[h.g.memoryRank(i.rank)][i.lo*out.Size() : i.hi*out.Size()]
			} else if err := h.read(h.mover(h.hostOf(i.rank)), h.firstTerms(s), firstTerm.at(0, i.index), b); err != nil {
				return err
			}
			reduce(run[:(i.hi-i.lo)*h.running().Size()], h.running(), [][]byte{b}, out, Sum, false)
			if h.onHost(i.rank) {
				taken.done()
			}
		}
		var dst []byte
		here := h.onHost(i.rank)
		switch {
		case h.last() && here:
			dst = h.position(h.g.here, i, h.target)
		case h.last():
			dst = complete[:(i.hi-i.lo)*out.Size()]
		}
		if dst != nil && here && h.accumulate { // dst had the first term
			if err := h.awaitStep(taken); err != nil {
				return err
			}
		}
		at := h.chunkOf(i.rank) * part
		b, err := h.add(sum, i, at+i.lo, at+i.hi, run, dst, begun)
		switch {
		case err != nil:
			return err
		case !h.last():
			return h.write(h.next(), s, sum.at(0, i.index), b)
		case !here:
			return h.write(h.mover(h.hostOf(i.rank)), s, result.at(0, i.index), b)
		}
		h.published(s)
		return nil
	})
}

func (h *hosts) sendFirstTerms(s int, all []int, taken steps) error {
	l, out := h.label(phaseFirst), h.h.Out.Size()
	return h.onStripe(s, all, func(i item) error {
		if !h.onHost(i.rank) {
			return nil
		}
		err := h.write(h.mover(0), h.firstTerms(s), l.at(0, i.index), h.dsts[h.g.memoryRank(i.rank)][i.lo*out:i.hi*out])
		taken.done()
		return err
	})
}

// receiveParts receives results, which may replace the first terms.
func (h *hosts) receiveParts(s int, all []int, taken steps) error {
	l := h.label(phaseResult)
	from := h.mover(len(h.g.hosts) - 1)
	return h.onStripe(s, all, func(i item) error {
		if !h.onHost(i.rank) {
			return nil
		}
		if h.accumulate {
			if err := h.awaitStep(taken); err != nil {
				return err
			}
		}
		if err := h.read(from, s, l.at(0, i.index), h.position(h.g.here, i, h.target)); err != nil {
			return err
		}
		h.published(s)
		return nil
	})
}

// collectParts copies the caller's part from the memory of this host's movers.
func (h *hosts) collectParts(all []int) error {
	if h.g.mem == nil {
		return nil
	}
	out := h.h.Out.Size()
	for k := range h.slices {
		from, err := h.moverMemory(k)
		if err != nil {
			return err
		}
		var n count
		if err := h.divide(k, all, func(i item) error {
			if !h.onHost(i.rank) {
				return nil
			}
			mine := i.rank == h.g.me
			if err := h.await(&n, k, i, mine); err != nil || !mine {
				return err
			}
			copy(h.dst[i.lo*out:i.hi*out], h.position(k, i, from))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
