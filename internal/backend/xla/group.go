package xla

import (
	"context"
	"fmt"
	"strings"

	"trireme/collective"
	"trireme/tensor"
)

// group emits collectives of all groups with a name, each of the same size.
type group struct {
	e     *emitter
	ranks [][]int
}

func (g *group) size() int { return len(g.ranks[0]) }

// attribute lists the groups, with the ranks of each in an order; nil is as they are.
func (g *group) attribute(order []int) string {
	rows := make([]string, len(g.ranks))
	for i, ranks := range g.ranks {
		in := ranks
		if order != nil {
			in = make([]int, len(ranks))
			for rank, at := range order {
				in[at] = ranks[rank]
			}
		}
		rows[i] = "[" + commas(in) + "]"
	}
	return fmt.Sprintf("replica_groups = dense<[%s]> : tensor<%dx%dxi64>", strings.Join(rows, ", "), len(rows), g.size())
}

func (g *group) AllGather(_ context.Context, dst, src *tensor.Tensor, _ string) error {
	v := g.e.flat(g.e.load(src))
	if g.size() > 1 {
		v = g.e.op("all_gather", "all_gather_dim = 0 : i64, "+g.attribute(nil), v.elem, []int{v.size() * g.size()}, v)
	}
	g.e.store(dst, v)
	return nil
}

func (g *group) ReduceScatter(_ context.Context, dst, src *tensor.Tensor, o collective.ReduceOptions, _ string) error {
	v := g.e.flat(g.e.load(src))
	if n := g.size(); n > 1 {
		v = g.e.region("reduce_scatter", g.attribute(o.Chunks)+", scatter_dimension = 0 : i64", g.e.combiner("add", v.elem), v.elem, []int{v.size() / n}, v)
	}
	if o.Accumulate {
		sum := elems[dst.DType()]
		v = g.e.binary("add", g.e.flat(g.e.load(dst)), g.e.convert(v, sum))
	}
	g.e.store(dst, v)
	return nil
}

func (g *group) AllReduce(_ context.Context, t *tensor.Tensor, op collective.Op, _ string) error {
	name, ok := map[collective.Op]string{collective.Sum: "add", collective.Max: "maximum"}[op]
	if !ok {
		return fmt.Errorf("xla: an all-reduce by %v", op)
	}
	v := g.e.flat(g.e.load(t))
	if g.size() > 1 {
		v = g.e.region("all_reduce", g.attribute(nil), g.e.combiner(name, v.elem), v.elem, v.dims, v)
	}
	g.e.store(t, v)
	return nil
}

func (g *group) AllToAll(_ context.Context, dst, src *tensor.Tensor, _ string) error {
	v := g.e.flat(g.e.load(src))
	if n := g.size(); n > 1 {
		v = g.e.op("all_to_all", fmt.Sprintf("concat_dimension = 0 : i64, %s, split_count = %d : i64, split_dimension = 0 : i64", g.attribute(nil), n), v.elem, v.dims, v)
	}
	g.e.store(dst, v)
	return nil
}

// Barrier does nothing: a program's collectives are ordered.
func (g *group) Barrier(context.Context, string) error { return nil }

func (g *group) Send(context.Context, *tensor.Tensor, int, string) error {
	return fmt.Errorf("xla: programs cannot send to one rank")
}

func (g *group) Recv(context.Context, *tensor.Tensor, int, string) error {
	return fmt.Errorf("xla: programs cannot receive from one rank")
}
