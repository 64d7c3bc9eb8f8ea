package collective

import (
	"context"

	"trireme/tensor"
)

// Group is a set of ranks that communicate, as one of them sees it. Every rank of a group
// issues the same operations in the same order from one goroutine; each operation runs
// behind the caller, in that order, and is finished when its Work is. Before data moves the
// ranks compare operation, type, count and sequence number: a difference is an error on
// every rank, never a hang. tag names what the operation is for (a unit) in messages.
//
// Sums are made in F32 (F64, I32, I64 in their own type), in the order of ranks, whatever
// the transport: the same bits everywhere.
type Group interface {
	Name() string
	Rank() int // of the caller within the group
	Size() int

	// AllGather: dst [Size*n] = every rank's src [n], in the order of ranks. src may be the
	// caller's part of dst.
	AllGather(dst, src *tensor.Tensor, tag string) Work
	// ReduceScatter: dst [n] = sum over ranks of their chunk of src [Size*n]. See ReduceOptions.
	ReduceScatter(dst, src *tensor.Tensor, o ReduceOptions, tag string) Work
	// AllReduce: t = sum, maximum or minimum over ranks, the same bits on each.
	AllReduce(t *tensor.Tensor, op Op, tag string) Work
	// Broadcast: t = root's t.
	Broadcast(t *tensor.Tensor, root int, tag string) Work
	// AllToAll: chunk i of dst = the caller's chunk of rank i's src.
	AllToAll(dst, src *tensor.Tensor, tag string) Work
	// Send and Recv move t between two ranks; only these two issue it. They are ordered
	// between each pair, apart from the group's sequence.
	Send(t *tensor.Tensor, to int, tag string) Work
	Recv(t *tensor.Tensor, from int, tag string) Work
	// Barrier is finished when every rank has issued it.
	Barrier(tag string) Work

	// Abort fails what is under way and all that follows, on every rank that can be reached.
	Abort(cause error)
}

// Op is how numbers of several ranks become one.
type Op uint8

// The operations.
const (
	Sum Op = iota
	Max
	Min
)

// ReduceOptions says how ReduceScatter sums.
type ReduceOptions struct {
	// Accumulate begins the sum with dst: dst + src_0 + src_1 + ..., one after the other. The
	// first contribution is otherwise copied.
	Accumulate bool
	// Chunks gives the chunk of src that each rank receives, in place of its own number;
	// the same on all ranks.
	Chunks []int
}

// Work is an operation under way.
type Work interface {
	// Wait returns when the operation is finished, failed, aborted, or ctx ends. Tensors may
	// be touched again after it. It may be called more than once, from any goroutine.
	Wait(ctx context.Context) error
}

// World is all ranks of a job and the means to form groups of them.
type World interface {
	Rank() int
	Size() int
	// Group forms a group of the ranks given, ascending. Every rank of the world calls it in the same
	// order with the same ranks; those that are not in it get nil.
	Group(name string, ranks []int) (Group, error)
	// Arena is memory that other ranks of this host can read, so that collectives on tensors
	// in it need no copies; nil where there is no such thing.
	Arena() *tensor.Arena
	// Abort aborts every group.
	Abort(cause error)
	Close() error
}
