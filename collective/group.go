package collective

import (
	"context"

	"trireme/tensor"
)

// Group is a set of ranks that communicate, as one of them sees it. An operation runs in the
// goroutine that calls it and returns when it is finished, or has failed, or when ctx ends.
// Tensors may be touched again after that. Every rank of a group calls the same operations in
// the same order from one goroutine; Send and Recv may have one goroutine more for each other
// rank and direction. Before data moves the ranks compare operation, type, count and sequence
// number: a difference is an error on every rank, never a hang. tag names what the operation
// is for (a unit) in messages.
//
// An operation whose ctx ends takes its rank out of the world: its later operations fail too,
// and the other ranks wait for it until Abort, or their time-out.
//
// Sums are made in F32 (F64, I32, I64 in their own type), in the order of ranks, whatever
// the transport: the same bits everywhere.
type Group interface {
	Name() string
	Rank() int // of the caller within the group
	Size() int

	// AllGather: dst [Size*n] = every rank's src [n], in the order of ranks. src may be the
	// caller's part of dst.
	AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error
	// ReduceScatter: dst [n] = sum over ranks of their chunk of src [Size*n]. See ReduceOptions.
	ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o ReduceOptions, tag string) error
	// AllReduce: t = sum or maximum over ranks, the same bits on each.
	AllReduce(ctx context.Context, t *tensor.Tensor, op Op, tag string) error
	// AllToAll: chunk i of dst = the caller's chunk of rank i's src.
	AllToAll(ctx context.Context, dst, src *tensor.Tensor, tag string) error
	// Send and Recv move t between two ranks; only these two call it. They are ordered
	// between each pair, apart from the group's sequence. Send may wait until the other rank
	// has called Recv: two ranks that both send first wait for each other.
	Send(ctx context.Context, t *tensor.Tensor, to int, tag string) error
	Recv(ctx context.Context, t *tensor.Tensor, from int, tag string) error
	// Barrier returns when every rank has called it.
	Barrier(ctx context.Context, tag string) error

	// Inline reports whether operations are recorded or counted instead of run. Such a group is
	// called by the goroutine that computes, so that its operations keep their place among
	// those of the backend; nothing else runs beside them.
	Inline() bool
	// Abort fails what is running and all that follows, on every rank that can be reached.
	Abort(cause error)
}

// Op is how numbers of several ranks become one.
type Op uint8

// The operations.
const (
	Sum Op = iota
	Max
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
