package planner

import (
	"context"

	"trireme/collective"
	"trireme/tensor"
)

// still is a group in which nothing moves: it counts the bytes that this rank would send.
type still struct {
	name       string
	rank, size int
	sent       *int64
}

var _ collective.Group = (*still)(nil)

type done struct{}

func (done) Wait(context.Context) error { return nil }

func (g *still) Name() string { return g.name }
func (g *still) Rank() int    { return g.rank }
func (g *still) Size() int    { return g.size }

func (g *still) count(bytes int) collective.Work {
	*g.sent += int64(bytes)
	return done{}
}

// Every rank's part reaches the others once.
func (g *still) AllGather(_, src *tensor.Tensor, _ string) collective.Work {
	return g.count(src.Bytes() * (g.size - 1))
}

func (g *still) ReduceScatter(dst, src *tensor.Tensor, _ collective.ReduceOptions, _ string) collective.Work {
	return g.count(src.Bytes() / g.size * (g.size - 1))
}

func (g *still) AllReduce(t *tensor.Tensor, _ collective.Op, _ string) collective.Work {
	return g.count(2 * t.Bytes() * (g.size - 1) / g.size)
}

func (g *still) Broadcast(t *tensor.Tensor, root int, _ string) collective.Work {
	if root != g.rank {
		return done{}
	}
	return g.count(t.Bytes() * (g.size - 1))
}

func (g *still) AllToAll(_, src *tensor.Tensor, _ string) collective.Work {
	return g.count(src.Bytes() / g.size * (g.size - 1))
}

func (g *still) Send(t *tensor.Tensor, _ int, _ string) collective.Work { return g.count(t.Bytes()) }
func (g *still) Recv(*tensor.Tensor, int, string) collective.Work       { return done{} }
func (g *still) Barrier(string) collective.Work                         { return done{} }
func (g *still) Abort(error)                                            {}
