package collective

import (
	"context"

	"trireme/tensor"
)

// Group is a process group as one of its ranks sees it. An operation runs in the calling goroutine and
// returns when it has finished or failed, or when ctx is done; until then its tensors must not be used.
// Every rank of a group calls the same operations in the same order from one goroutine; Send and Recv
// may use one more goroutine for each peer and direction. Before data moves, ranks compare operation,
// type, count and sequence number: a mismatch is an error on every rank, not a hang. tag names the
// operation's purpose (a unit) in messages.
//
// If ctx is done during an operation, this rank leaves the world: its later operations fail, and the
// other ranks wait until Abort or their time-out.
//
// Sums are made in rank order, in F32 (F64, I32 and I64 in their own type): all transports give the same
// bits.
type Group interface {
	Name() string
	Rank() int // the caller's rank in the group
	Size() int

	// AllGather: dst [Size*n] = every rank's src [n], in rank order. src may be the caller's chunk
	// of dst.
	AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error
	// ReduceScatter: dst [n] = sum over ranks of the caller's chunk of src [Size*n]. See
	// ReduceOptions.
	ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o ReduceOptions, tag string) error
	// AllReduce: t = sum or maximum of t over ranks, with the same bits on each.
	AllReduce(ctx context.Context, t *tensor.Tensor, op Op, tag string) error
	// AllToAll: chunk i of dst = the caller's chunk of rank i's src.
	AllToAll(ctx context.Context, dst, src *tensor.Tensor, tag string) error
	// Send and Recv move t between two ranks; only these two call it. Each pair and direction has its
	// own order. Send may block until the peer calls Recv, so two ranks that both send first deadlock.
	Send(ctx context.Context, t *tensor.Tensor, to int, tag string) error
	Recv(ctx context.Context, t *tensor.Tensor, from int, tag string) error
	// Barrier returns when every rank has called it.
	Barrier(ctx context.Context, tag string) error

	// Inline reports whether operations are recorded or counted instead of run. The computing
	// goroutine calls such a group, so operations stay in program order with those of the backend.
	Inline() bool
	// Abort fails running and later operations on every rank that can be reached.
	Abort(cause error)
}

// Op is a reduction.
type Op uint8

// The reductions.
const (
	Sum Op = iota
	Max
)

// ReduceOptions says how ReduceScatter sums.
type ReduceOptions struct {
	// Accumulate starts the sum with dst: dst + src_0 + src_1 + ..., in this order. Otherwise it
	// starts with src_0.
	Accumulate bool
	// Chunks[r] is the chunk of src that rank r receives, the same on all ranks; nil is r.
	Chunks []int
}

// World is all ranks of a job. It forms groups of them.
type World interface {
	Rank() int
	Size() int
	// Group forms a group of ascending ranks. Every rank of the world calls it, in the same order and
	// with the same arguments; ranks outside the group get nil.
	Group(name string, ranks []int) (Group, error)
	// Arena is memory that other ranks of this host can read, so collectives on tensors in it need no
	// copies; nil if the transport has none.
	Arena() *tensor.Arena
	// Abort aborts every group.
	Abort(cause error)
	// Close fails pending operations and disconnects this rank.
	Close() error
}
