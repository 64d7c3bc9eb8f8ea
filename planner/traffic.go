package planner

import (
	"context"
	"slices"

	"trireme/collective"
	"trireme/tensor"
)

// Traffic is the calls and bytes of one rank in a step, by collective and group.
type Traffic struct {
	Op    string // all_gather, reduce_scatter, all_reduce, ...
	Group string // world, shard, replicate, reshard
	Calls int64
	Bytes int64
}

// ledger sums the traffic of a step by kind, in order of first use, and lists the collectives.
type ledger struct {
	kinds  []Traffic
	issued []issued
	at     func() Work // of the rank so far; nil: unknown
}

// issued is a collective in a step.
type issued struct {
	op, group string
	size      int  // ranks of the group
	bytes     int  // that this rank sends
	at        Work // of this rank before it
}

func (l *ledger) add(op, group string, size, bytes int) {
	e := issued{op: op, group: group, size: size, bytes: bytes}
	if l.at != nil {
		e.at = l.at()
	}
	l.issued = append(l.issued, e)
	i := slices.IndexFunc(l.kinds, func(t Traffic) bool { return t.Op == op && t.Group == group })
	if i < 0 {
		i = len(l.kinds)
		l.kinds = append(l.kinds, Traffic{Op: op, Group: group})
	}
	l.kinds[i].Calls++
	l.kinds[i].Bytes += int64(bytes)
}

func (l *ledger) clear() { l.kinds, l.issued = nil, nil }

func (l *ledger) traffic() []Traffic { return l.kinds }

// ranks are all ranks of a job as one sees them, without the others.
type ranks struct {
	rank, size int
	sent       *ledger
}

var _ collective.World = (*ranks)(nil)

func (r *ranks) Rank() int            { return r.rank }
func (r *ranks) Size() int            { return r.size }
func (r *ranks) Arena() *tensor.Arena { return nil }
func (r *ranks) Abort(error)          {}
func (r *ranks) Close() error         { return nil }

func (r *ranks) Group(name string, of []int) (collective.Group, error) {
	me := slices.Index(of, r.rank)
	if me < 0 {
		return nil, nil
	}
	return &countingGroup{name, me, len(of), r.sent}, nil
}

// countingGroup is a group that moves nothing and counts the bytes this rank would send.
type countingGroup struct {
	name       string
	rank, size int
	sent       *ledger
}

var _ collective.Group = (*countingGroup)(nil)

func (g *countingGroup) Name() string { return g.name }
func (g *countingGroup) Rank() int    { return g.rank }
func (g *countingGroup) Size() int    { return g.size }
func (g *countingGroup) Inline() bool { return true }
func (g *countingGroup) Abort(error)  {}

func (g *countingGroup) count(op string, bytes int) error {
	g.sent.add(op, g.name, g.size, bytes)
	return nil
}

// AllGather counts this rank's shard once per peer.
func (g *countingGroup) AllGather(_ context.Context, _, src *tensor.Tensor, _ string) error {
	return g.count("all_gather", src.Bytes()*(g.size-1))
}

func (g *countingGroup) ReduceScatter(_ context.Context, _, src *tensor.Tensor, _ collective.ReduceOptions, _ string) error {
	return g.count("reduce_scatter", src.Bytes()/g.size*(g.size-1))
}

func (g *countingGroup) AllReduce(_ context.Context, t *tensor.Tensor, _ collective.Op, _ string) error {
	return g.count("all_reduce", 2*t.Bytes()*(g.size-1)/g.size)
}

func (g *countingGroup) AllToAll(_ context.Context, _, src *tensor.Tensor, _ string) error {
	return g.count("all_to_all", src.Bytes()/g.size*(g.size-1))
}

func (g *countingGroup) Send(_ context.Context, t *tensor.Tensor, _ int, _ string) error {
	return g.count("send", t.Bytes())
}
func (g *countingGroup) Recv(context.Context, *tensor.Tensor, int, string) error { return nil }
func (g *countingGroup) Barrier(context.Context, string) error                   { return nil }
