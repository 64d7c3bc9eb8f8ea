// Package collective moves tensors between ranks: gathers, reductions, exchanges,
// barriers and messages between two. It holds the algorithms, once, and the world inside
// one process; how bytes travel between processes is a Transport (collective/shm for one
// host, collective/tcp for any). It starts no process and finds no peer by itself (launch,
// rendezvous), and knows nothing of layers or shards (parallel).
//
// A World is all ranks of a job. World.Group forms a Group of some of them, whose methods are
// the operations. NewMesh forms the groups of replicas and shards.
//
// Order. An operation runs in the goroutine that calls it. A world starts none: whoever wants
// communication beside compute calls operations from a goroutine of its own (parallel has one
// for all groups). A Group that only records or counts operations says so (Inline), and is
// called by the goroutine that computes.
//
// Numbers. A sum is made in the order of ranks, over all of them, by the same code on every
// transport: the bits depend on the values and the number of ranks only. BF16 and F16 are
// widened to F32, summed, and rounded to nearest even once, at the end.
//
// Failure. The first cause anywhere (a time-out, a mismatch, a lost peer, Abort) ends the
// world: all that runs or follows, in every group and on every rank that can be
// reached, fails with a *Failure that names it and the rank it came from. There is no way
// back from it but a new world.
package collective
