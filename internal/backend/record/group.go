package record

import (
	"context"
	"fmt"
	"reflect"

	"trireme/collective"
	"trireme/tensor"
)

// Group records what a group of ranks does.
type Group struct {
	collective.Group // that the ranks use outside of steps, and in Replay
	r                *Backend
}

var _ collective.Group = (*Group)(nil)

// Group is g for tensors of r; nil where g is.
func (r *Backend) Group(g collective.Group) collective.Group {
	if g == nil {
		return nil
	}
	if r.groups == nil {
		r.groups = map[string]*Group{}
	}
	r.groups[g.Name()] = &Group{g, r}
	return r.groups[g.Name()]
}

// Inline is true: an operation has its place among those of the backend.
func (g *Group) Inline() bool { return true }

// do is every operation of a group, as Backend.do.
func (g *Group) do(ctx context.Context, signature string, accumulate bool, args ...any) error {
	if g.r.step != nil {
		g.r.step.add(communication, g.Name(), signature, accumulate, args...)
		return nil
	}
	name, _ := parse(signature)
	values := make([]reflect.Value, len(args))
	for i, arg := range args {
		values[i] = reflect.ValueOf(withTensors(arg, g.r.shadow))
	}
	return g.run(ctx, name, values)
}

// run does an operation on tensors of the inner backend.
func (g *Group) run(ctx context.Context, name string, args []reflect.Value) error {
	if g == nil {
		return fmt.Errorf("the group was not made by Backend.Group")
	}
	err, _ := invoke(g.Group, name, append([]reflect.Value{reflect.ValueOf(ctx)}, args...))[0].Interface().(error)
	return err
}

// The operations of collective.Group.

func (g *Group) AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	return g.do(ctx, "AllGather dst= src tag", false, dst, src, tag)
}

func (g *Group) ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o collective.ReduceOptions, tag string) error {
	return g.do(ctx, "ReduceScatter dst? src options tag", o.Accumulate, dst, src, o, tag)
}

func (g *Group) AllReduce(ctx context.Context, t *tensor.Tensor, op collective.Op, tag string) error {
	return g.do(ctx, "AllReduce t+ op tag", false, t, op, tag)
}

func (g *Group) AllToAll(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	return g.do(ctx, "AllToAll dst= src tag", false, dst, src, tag)
}

func (g *Group) Send(ctx context.Context, t *tensor.Tensor, to int, tag string) error {
	return g.do(ctx, "Send t to tag", false, t, to, tag)
}

func (g *Group) Recv(ctx context.Context, t *tensor.Tensor, from int, tag string) error {
	return g.do(ctx, "Recv t= from tag", false, t, from, tag)
}

func (g *Group) Barrier(ctx context.Context, tag string) error {
	return g.do(ctx, "Barrier tag", false, tag)
}
