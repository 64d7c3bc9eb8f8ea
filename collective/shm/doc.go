// Package shm connects the ranks of one Linux host through memory. Each rank owns one
// memfd: a control part that its peers may write (clocks, small contributions, the first
// failure) and an arena that they map for reading, so that a collective on tensors in it
// copies straight from rank to rank. Open makes a collective.World of it.
//
// A memfd has no name. Peers open it through /proc, by the process and descriptor numbers
// that an Exchange carries, and all descriptors are closed when everybody has: nothing is
// left behind, however the processes end. Ranks that do not see each other's processes
// (another host, user or container) cannot be connected; Open then fails on every rank, and
// tcp is the transport to take.
//
// Waiting is a short spin and then a futex on the clock that is waited for, so that a
// waiting rank leaves its core to computation. The end of a peer's process is seen through
// a pidfd; that of a peer that only stopped, by the time-out.
package shm
