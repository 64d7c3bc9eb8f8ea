package collective

import "slices"

// tree runs a small operation. The first rank of each host has the contributions of its host, which go up a
// binomial tree to the first host and come back, summed in an AllReduce: with H hosts, 2*log2(H) messages
// after each other, 2*(H-1) in all.
func (o *messages) tree() error {
	g := o.g
	if g.mem != nil {
		if err := o.join(o.peers()); err != nil {
			return err
		}
	}
	result, err := o.treeResult()
	if err != nil {
		return err
	}
	if o.h.Kind == KindAllReduce {
		copy(o.dst, result)
		return nil
	}
	o.small(func(rank int) []byte { return result[rank*o.contribution():] })
	return nil
}

// contribution is the number of bytes that a rank contributes.
func (o *operation) contribution() int {
	if !o.contributes() {
		return 0
	}
	return len(o.src)
}

// treeResult returns the sum, or all contributions in rank order.
func (o *messages) treeResult() ([]byte, error) {
	g, slot := o.g, int(o.h.Seq&1)
	results := g.progressChannel(0)
	size := len(g.ranks) * o.contribution()
	if o.h.Kind == KindAllReduce {
		size = len(o.src)
	}
	if g.here > 0 {
		if err := o.await([]peer{{0, 0}}, summed); err != nil || size == 0 {
			return nil, err
		}
		return g.mem.Exposed(0, results, slot)
	}
	result, err := o.gatherTree()
	if err == nil {
		result, err = o.broadcastTree(result, size)
	}
	if err == nil && g.mem != nil {
		g.mem.Unexpose(results, slot) // of the operation before the last, which all have finished
		if size > 0 {
			g.mem.Expose(results, slot, result)
		}
		o.tick(summed)
	}
	return result, err
}

// span returns the number of hosts below host h of the tree, h included. They are h, h+1, ....
func span(h, hosts int) int {
	n := h & -h
	if h == 0 {
		n = hosts
	}
	return min(n, hosts-h)
}

// children returns the hosts to which host h is the parent, the nearest first.
func children(h, hosts int) (c []int) {
	for d := 1; h+d < hosts && (h == 0 || d < h&-h); d *= 2 {
		c = append(c, h+d)
	}
	return c
}

func parent(h int) int { return h &^ (h & -h) }

// below returns the number of ranks of the hosts below host h of the tree.
func (g *group) below(h int) (n int) {
	for _, ranks := range g.hosts[h:][:span(h, len(g.hosts))] {
		n += len(ranks)
	}
	return n
}

// gatherTree collects contributions from the children and sends them to the parent. The first host returns
// the result.
func (o *messages) gatherTree() ([]byte, error) {
	g, each := o.g, o.contribution()
	all := make([]byte, 0, g.below(g.host)*each)
	for _, r := range g.local {
		switch {
		case each == 0:
		case r == g.me:
			all = append(all, o.src...)
		default:
			all = append(all, o.posted(r)[:each]...)
		}
	}
	l := o.label(phaseData)
	for _, c := range children(g.host, len(g.hosts)) {
		b, err := o.header(g.hosts[c][0], 0)
		if err != nil {
			return nil, err
		}
		n := g.below(c) * each
		if len(b) != min(n, SlotDataSize) {
			return nil, o.malformed(g.hosts[c][0])
		}
		all = append(all, b...)
		rest := all[len(all):][:n-len(b)]
		all = all[:len(all)+len(rest)]
		if len(rest) == 0 {
			continue
		}
		if err := o.readAll(g.hosts[c][0], l, rest); err != nil {
			return nil, err
		}
	}
	if g.host > 0 {
		up, n := g.hosts[parent(g.host)][0], min(len(all), SlotDataSize)
		if err := o.sendHeader(up, all[:n]); err != nil || n == len(all) {
			return nil, err
		}
		return nil, o.writeAll(up, l, all[n:])
	}
	if o.h.Kind == KindAllReduce && each > 0 {
		reduce(all[:each], o.h.Out, slices.Collect(slices.Chunk(all, each)), o.h.DType, o.h.Op, false)
		all = all[:each]
	}
	return all, nil
}

// broadcastTree passes the first host's result of size bytes down the tree.
func (o *messages) broadcastTree(result []byte, size int) ([]byte, error) {
	g := o.g
	l := o.label(phaseResult)
	if g.host > 0 {
		result = make([]byte, size)
		up := g.hosts[parent(g.host)][0]
		if err := o.readAll(up, l, result); err != nil {
			return nil, err
		}
	}
	for _, c := range slices.Backward(children(g.host, len(g.hosts))) { // the farthest has the most below it
		if err := o.writeAll(g.hosts[c][0], l, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// writeAll and readAll move b in one stream, as one message if it is empty.
func (o *messages) writeAll(to int, l *label, b []byte) error {
	c := wholeChunks(len(b))
	for i := range c.count {
		if err := o.write(to, 0, l.at(0, i), c.of(b, i)); err != nil {
			return err
		}
	}
	return nil
}

func (o *messages) readAll(from int, l *label, b []byte) error {
	c := wholeChunks(len(b))
	for i := range c.count {
		if err := o.read(from, 0, l.at(0, i), c.of(b, i)); err != nil {
			return err
		}
	}
	return nil
}

// wholeChunks divides a vector into as few chunks as possible, at least one.
func wholeChunks(total int) pieces {
	return pieces{chunkBytes, max((total+chunkBytes-1)/chunkBytes, 1), total}
}
