package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"trireme/flight"
	"trireme/tensor"
	"trireme/trace"
)

// group is the Group over a Memory or Messages transport.
type group struct {
	w        *world
	name     string
	ranks    []int  // in the world
	key      uint64 // hash of name and ranks
	me       int
	mem      Memory
	msg      Messages
	hosts    [][]int            // group ranks that share memory; a rank without Memory is alone
	host     int                // the caller's
	local    []int              // hosts[host]; an index is a rank in mem
	here     int                // the caller's index in local
	channels []channel          // the group's operations; 1+p: sends to p; 1+size+p: receives from p
	work     [MaxStripes][]byte // buffers for sums

	recorded flight.Group
	trace    *trace.Recorder
}

var _ Group = (*group)(nil)

func newGroup(w *world, id int, name string, ranks []int, me int, l Links) *group {
	n := len(ranks)
	g := &group{w: w, name: name, ranks: ranks, mem: l.Memory, msg: l.Messages, hosts: l.Hosts, key: hash(fmt.Sprint(name, ranks)), me: me, channels: make([]channel, 1+2*n)}
	if g.hosts == nil {
		for r := range n {
			if g.mem == nil || r == 0 {
				g.hosts = append(g.hosts, nil)
			}
			last := len(g.hosts) - 1
			g.hosts[last] = append(g.hosts[last], r)
		}
	}
	for h, ranks := range g.hosts {
		if i := slices.Index(ranks, me); i >= 0 {
			g.host, g.local, g.here = h, ranks, i
		}
	}
	if w.cfg.Recorder != nil {
		g.recorded = w.cfg.Recorder(w.rank).Group(hash(fmt.Sprint(id, name, ranks)), name, ranks)
	}
	if w.cfg.Trace != nil {
		g.trace = w.cfg.Trace(w.rank)
	}
	return g
}

// buffer returns n bytes that the goroutine of a stripe may use until its operation ends.
func (g *group) buffer(stripe, n int) []byte {
	if len(g.work[stripe]) < n {
		g.work[stripe] = make([]byte, n)
	}
	return g.work[stripe][:n]
}

func (g *group) Name() string      { return g.name }
func (g *group) Rank() int         { return g.me }
func (g *group) Size() int         { return len(g.ranks) }
func (g *group) Inline() bool      { return false }
func (g *group) Abort(cause error) { g.w.Abort(cause) }

// record records that the rank has reached an operation.
func (o *operation) record() flight.Entry {
	g := o.g
	r := flight.Op{Seq: o.h.Seq, Kind: o.h.Kind.String(), Count: o.h.Count, Tag: o.tag, Peer: -1}
	if o.h.Kind != KindBarrier {
		r.DType = o.h.DType.String()
	}
	if o.ch > 0 {
		r.Peer = g.ranks[o.peer]
	}
	return g.recorded.Begin(r)
}

var spanKinds = [...]trace.Kind{
	KindAllGather: trace.AllGather, KindReduceScatter: trace.ReduceScatter, KindAllReduce: trace.AllReduce,
	KindAllToAll: trace.AllToAll, KindSend: trace.Send, KindRecv: trace.Recv, KindBarrier: trace.Barrier,
}

// span starts the operation's span.
func (o *operation) span() trace.Mark {
	return o.g.trace.Begin(trace.Span{
		Stream: trace.Comm, Kind: spanKinds[o.h.Kind], Unit: o.tag, Axis: o.g.name, Seq: o.h.Seq, Bytes: int64(max(len(o.dst), len(o.src))),
	})
}

func (g *group) busy() bool {
	for i := range g.channels {
		if g.channels[i].busy.Load() {
			return true
		}
	}
	return false
}

// check panics with the operation's name if ok is false: the caller broke its contract.
func (g *group) check(ok bool, k Kind, tag, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("collective: group %s: %v (%s): ", g.name, k, tag) + fmt.Sprintf(format, args...))
	}
}

func (g *group) AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	g.check(dst.DType() == src.DType() && dst.Elems() == g.Size()*src.Elems(), KindAllGather, tag, "dst %v is not %d times src %v", dst, g.Size(), src)
	return g.operation(ctx, 0, KindAllGather, tag, dst, src).run()
}

func (g *group) ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o ReduceOptions, tag string) error {
	g.check(src.Elems() == g.Size()*dst.Elems() && reducible(dst.DType(), src.DType()), KindReduceScatter, tag, "dst %v is not a 1/n chunk of src %v for n = %d ranks", dst, src, g.Size())
	if o.Chunks != nil {
		seen := make([]bool, g.Size())
		g.check(len(o.Chunks) == g.Size(), KindReduceScatter, tag, "%d chunks for %d ranks", len(o.Chunks), g.Size())
		for _, c := range o.Chunks {
			g.check(c >= 0 && c < g.Size() && !seen[c], KindReduceScatter, tag, "chunks %v are not a permutation", o.Chunks)
			seen[c] = true
		}
	}
	r := g.operation(ctx, 0, KindReduceScatter, tag, dst, src)
	r.chunks, r.accumulate, r.h.Chunks = o.Chunks, o.Accumulate, chunksHash(o.Chunks)
	if o.Accumulate {
		r.h.Flags = 1
	}
	return r.run()
}

// chunksHash hashes an order of chunks; 0 for the natural order.
func chunksHash(chunks []int) uint64 {
	f, natural := fnv.New64a(), true
	for i, c := range chunks {
		natural = natural && i == c
		f.Write(binary.LittleEndian.AppendUint32(nil, uint32(c)))
	}
	if natural {
		return 0
	}
	return f.Sum64()
}

func (g *group) AllReduce(ctx context.Context, t *tensor.Tensor, op Op, tag string) error {
	g.check(op <= Max && reducible(t.DType(), t.DType()), KindAllReduce, tag, "%v of %v", op, t)
	r := g.operation(ctx, 0, KindAllReduce, tag, t, t)
	r.h.Op = op
	return r.run()
}

func (g *group) AllToAll(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	g.check(dst.DType() == src.DType() && dst.Elems() == src.Elems() && src.Elems()%g.Size() == 0, KindAllToAll, tag, "%v from %v over %d ranks", dst, src, g.Size())
	return g.operation(ctx, 0, KindAllToAll, tag, dst, src).run()
}

func (g *group) Send(ctx context.Context, t *tensor.Tensor, to int, tag string) error {
	g.check(to >= 0 && to < g.Size() && to != g.me, KindSend, tag, "to rank %d of %d from %d", to, g.Size(), g.me)
	o := g.operation(ctx, 1+to, KindSend, tag, t, t)
	o.peer = to
	return o.run()
}

func (g *group) Recv(ctx context.Context, t *tensor.Tensor, from int, tag string) error {
	g.check(from >= 0 && from < g.Size() && from != g.me, KindRecv, tag, "from rank %d of %d to %d", from, g.Size(), g.me)
	o := g.operation(ctx, 1+g.Size()+from, KindRecv, tag, t, t)
	o.peer = from
	return o.run()
}

func (g *group) Barrier(ctx context.Context, tag string) error {
	return g.operation(ctx, 0, KindBarrier, tag, nil, nil).run()
}
