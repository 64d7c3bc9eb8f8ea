// Package shm connects the ranks of one Linux host through shared memory. Each rank owns a memfd with a
// control region that its peers may write (clocks, small contributions, the first failure) and an arena
// that they map read-only, so collectives on tensors in the arena copy directly between ranks. Open
// returns a collective.World.
//
// A memfd has no name. Peers open it through /proc by the pid and descriptor number that the Bootstrap
// exchanges, and the descriptor is closed when all have opened it: no file is left behind, however the
// processes end. Ranks that cannot see each other's processes (other host, user or container) cannot be
// connected; Open then fails on every rank. Use tcp instead.
//
// A rank waits by a short spin, then a futex on the clock. A pidfd detects that a peer's process ended;
// the time-out detects a stopped one.
package shm
