package record

import (
	"context"
	"fmt"

	"trireme/collective"
	"trireme/tensor"
)

// world is a World with recording groups.
type world struct {
	collective.World
	r *Backend
}

// World wraps w for tensors of r.
func (r *Backend) World(w collective.World) collective.World { return world{w, r} }

func (w world) Group(name string, ranks []int) (collective.Group, error) {
	g, err := w.World.Group(name, ranks)
	if g == nil || err != nil {
		return nil, err
	}
	w.r.groups[name] = &group{g, w.r}
	return w.r.groups[name], nil
}

// group records collectives.
type group struct {
	collective.Group // for use outside steps, and by Replay
	r                *Backend
}

var _ collective.Group = (*group)(nil)

// Inline is true: collectives are ordered among the backend's operations.
func (g *group) Inline() bool { return true }

// do is Backend.do for a group's operations.
func (g *group) do(ctx context.Context, signature string, accumulate bool, args ...any) error {
	if g.r.step != nil {
		g.r.step.add(communication, g.Name(), signature, accumulate, args...)
		return nil
	}
	name, values := g.r.shadows(signature, args)
	return collect(ctx, g.Group, name, values)
}

// Collectives are the operations of collective.Group that are recorded.
type Collectives interface {
	AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error
	ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o collective.ReduceOptions, tag string) error
	AllReduce(ctx context.Context, t *tensor.Tensor, op collective.Op, tag string) error
	AllToAll(ctx context.Context, dst, src *tensor.Tensor, tag string) error
	Send(ctx context.Context, t *tensor.Tensor, to int, tag string) error
	Recv(ctx context.Context, t *tensor.Tensor, from int, tag string) error
	Barrier(ctx context.Context, tag string) error
}

// collect calls the operation of a name.
func collect(ctx context.Context, g Collectives, name string, args []any) error {
	t := func(i int) *tensor.Tensor { return args[i].(*tensor.Tensor) }
	tag := args[len(args)-1].(string)
	switch name {
	case "AllGather":
		return g.AllGather(ctx, t(0), t(1), tag)
	case "ReduceScatter":
		return g.ReduceScatter(ctx, t(0), t(1), args[2].(collective.ReduceOptions), tag)
	case "AllReduce":
		return g.AllReduce(ctx, t(0), args[1].(collective.Op), tag)
	case "AllToAll":
		return g.AllToAll(ctx, t(0), t(1), tag)
	case "Send":
		return g.Send(ctx, t(0), args[1].(int), tag)
	case "Recv":
		return g.Recv(ctx, t(0), args[1].(int), tag)
	case "Barrier":
		return g.Barrier(ctx, tag)
	}
	return fmt.Errorf("record: no collective is named %q", name)
}

// The operations of collective.Group.

func (g *group) AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	return g.do(ctx, "AllGather dst= src tag", false, dst, src, tag)
}

func (g *group) ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o collective.ReduceOptions, tag string) error {
	return g.do(ctx, "ReduceScatter dst? src options tag", o.Accumulate, dst, src, o, tag)
}

func (g *group) AllReduce(ctx context.Context, t *tensor.Tensor, op collective.Op, tag string) error {
	return g.do(ctx, "AllReduce t+ op tag", false, t, op, tag)
}

func (g *group) AllToAll(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	return g.do(ctx, "AllToAll dst= src tag", false, dst, src, tag)
}

func (g *group) Send(ctx context.Context, t *tensor.Tensor, to int, tag string) error {
	return g.do(ctx, "Send t to tag", false, t, to, tag)
}

func (g *group) Recv(ctx context.Context, t *tensor.Tensor, from int, tag string) error {
	return g.do(ctx, "Recv t= from tag", false, t, from, tag)
}

func (g *group) Barrier(ctx context.Context, tag string) error {
	return g.do(ctx, "Barrier tag", false, tag)
}
