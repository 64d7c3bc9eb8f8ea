// Package collective runs collective communication between ranks: all-gather, reduce-scatter,
// all-reduce, all-to-all, send, recv and barrier on tensors. It has the algorithms and the transport
// within one process; collective/shm connects the processes of one host, collective/tcp any. It starts
// no processes (launch), does not find peers (rendezvous) and does not know layers or shards (parallel).
//
// A World is all ranks of a job. World.Group forms a Group of some ranks, as NCCL's communicators and
// PyTorch's process groups.
//
// Order. An operation runs in the calling goroutine; a world starts none. To overlap communication with
// computation, call operations from another goroutine (parallel has one for all groups). A Group that
// only records or counts operations is Inline and is called by the computing goroutine.
//
// Sums are made in rank order by the same code on every transport: the bits depend only on the values
// and the number of ranks. BF16 and F16 are summed in F32 and rounded once, to nearest even.
//
// Failure. The first failure anywhere (a time-out, a mismatch, a lost peer, Abort) ends the world: all
// running and later operations, of every group on every rank that can be reached, fail with the same
// *Failure, which names the cause and the rank that reported it. Only a new world recovers.
package collective
