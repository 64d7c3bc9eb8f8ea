// Package collective moves tensors between ranks: gathers, reductions, broadcasts,
// barriers and messages between two. It holds the algorithms, once, and the world inside
// one process; how bytes travel between processes is a Transport (collective/shm for one
// host, collective/tcp for any). It starts no process and finds no peer by itself (launch,
// rendezvous), and knows nothing of layers or shards (parallel).
//
// A World is all ranks of a job. World.Group forms a Group of some of them, whose methods
// issue an operation and return a Work; Work.Wait returns when it is finished. NewMesh
// forms the groups of replicas and shards.
//
// Order. Operations of one group run one after the other, in the order of issue, apart from
// those of other groups: each group has a goroutine of its own while something is to be
// done, so ranks may interleave two groups differently. Send and Recv have one more for
// each peer and direction. An operation of up to 4 KiB where peers' memory is readable is
// posted by the caller that issues it, and completed by the one that waits: one that nobody
// waits for writes no result and has no time-out.
//
// Numbers. A sum is made in the order of ranks, over all of them, by the same code on every
// transport: the bits depend on the values and the number of ranks only. BF16 and F16 are
// widened to F32, summed, and rounded to nearest even once, at the end.
//
// Failure. The first cause anywhere (a time-out, a mismatch, a lost peer, Abort) ends the
// world: all that is under way or follows, in every group and on every rank that can be
// reached, fails with a *Failure that names it and the rank it came from. There is no way
// back from it but a new world.
package collective
