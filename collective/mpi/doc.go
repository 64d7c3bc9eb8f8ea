// Package mpi connects ranks that mpirun (or srun with MPI) started by their system's MPI library, over the
// networks that it supports. Open opens a World on one rank per process.
//
// Bytes move as MPI messages of up to 256 KiB through buffers outside the Go heap; sums are made in rank
// order by package collective, so results have the same bits as on other transports. A waiting rank sleeps
// between polls, for up to a millisecond.
//
// MPI has no way to lose a rank: mpirun ends all processes if one dies. Time-outs and World.Abort end
// operations here as on other transports; a stopped process is detected by its missing heartbeats
// (rendezvous). MPI does not encrypt, and authenticates as far as mpirun does: its users trust their network.
package mpi
