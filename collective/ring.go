package collective

// allGather passes every rank's data to each other host once: directly, or around a ring if there are
// many hosts.
func (h *hosts) allGather() error {
	ring := len(h.g.hosts) > h.g.w.cfg.MaxDirect
	fs := []func() error{func() error { return h.collectGathered(ring) }}
	if h.moves() {
		if err := h.joinMovers(); err != nil {
			return err
		}
		n := 0
		_ = h.received(ring, h.g.here, func(int, item) error { n++; return nil })
		arrived := h.newSteps(n) // items to forward
		fs = append(fs, h.striped(func(s int) error { return h.receiveGathered(s, ring, arrived[s]) })...)
		fs = append(fs, h.striped(func(s int) error {
			if ring {
				return h.sendRing(s, arrived[s])
			}
			return h.sendDirect(s)
		})...)
	}
	return h.together(fs...)
}

// received calls f for the items of slice k that other hosts send, in the order in which the mover publishes
// them. They come from host: one of each host at a time, or in a ring, through the host before, all of a
// host at a time.
func (h *hosts) received(ring bool, k int, f func(host int, i item) error) error {
	n, me := len(h.g.hosts), h.g.host
	if ring {
		for d := 1; d < n; d++ {
			host := (me + n - d) % n
			if err := h.divide(k, h.g.hosts[host], func(i item) error { return f(host, i) }); err != nil {
				return err
			}
		}
		return nil
	}
	for index, more := 0, true; more; index++ {
		more = false
		for d := 1; d < n; d++ {
			host := (me + n - d) % n
			i, ok := h.nth(k, h.g.hosts[host], index)
			if !ok {
				continue
			}
			more = true
			if err := f(host, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hosts) gathered(i item, b []byte) []byte {
	elem := h.h.DType.Size()
	at := i.rank * len(h.src)
	return b[at+i.lo*elem : at+i.hi*elem]
}

func (h *hosts) receiveGathered(s int, ring bool, arrived steps) error {
	l, n := h.label(phaseData), len(h.g.hosts)
	return h.received(ring, h.g.here, func(host int, i item) error {
		if h.stripe(i) != s {
			return nil
		}
		from := host
		if ring {
			from = (h.g.host + n - 1) % n
		}
		if err := h.read(h.mover(from), s, l.at(i.rank, i.index), h.gathered(i, h.target)); err != nil {
			return err
		}
		h.published(s)
		arrived.done()
		return nil
	})
}

// own returns this host's data of an item.
func (h *hosts) own(i item) []byte {
	elem := h.h.DType.Size()
	return h.shown[h.g.memoryRank(i.rank)][i.lo*elem : i.hi*elem]
}

func (h *hosts) sendDirect(s int) error {
	l, n := h.label(phaseData), len(h.g.hosts)
	return h.onStripe(s, h.g.local, func(i item) error {
		for d := 1; d < n; d++ {
			if err := h.write(h.mover((h.g.host+d)%n), s, l.at(i.rank, i.index), h.own(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// sendRing sends this host's data to the next, then what arrives, except the next host's.
func (h *hosts) sendRing(s int, arrived steps) error {
	l, n := h.label(phaseData), len(h.g.hosts)
	next := h.mover((h.g.host + 1) % n)
	if err := h.onStripe(s, h.g.local, func(i item) error {
		return h.write(next, s, l.at(i.rank, i.index), h.own(i))
	}); err != nil {
		return err
	}
	return h.received(true, h.g.here, func(host int, i item) error {
		if h.stripe(i) != s || host == (h.g.host+1)%n {
			return nil
		}
		if err := h.awaitStep(arrived); err != nil {
			return err
		}
		return h.write(next, s, l.at(i.rank, i.index), h.gathered(i, h.target))
	})
}

// collectGathered copies the data of this host's ranks, and what its movers receive.
func (h *hosts) collectGathered(ring bool) error {
	part := len(h.src)
	for i, b := range h.shown {
		move(h.dst[h.g.local[i]*part:][:part], b)
	}
	if h.g.mem == nil {
		return nil
	}
	for k := range h.slices {
		from, err := h.moverMemory(k)
		if err != nil {
			return err
		}
		var n count
		if err := h.received(ring, k, func(_ int, i item) error {
			if err := h.await(&n, k, i, true); err != nil {
				return err
			}
			move(h.gathered(i, h.dst), h.gathered(i, from))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// allToAll copies between this host's ranks, and exchanges directly with the others.
func (h *hosts) allToAll() error {
	peers := h.others(func(rank int) bool { return h.g.mem == nil || !h.onHost(rank) })
	return h.direct(peers, func() {
		part := len(h.src) / len(h.g.ranks)
		for i, b := range h.shown {
			copy(h.incoming(h.g.local[i]), b[h.g.me*part:][:part])
		}
	})
}
