// Package mpi passes messages by a system's MPI library: MPICH (also Intel MPI and others with its binary
// interface) or Open MPI, found at run time. It has what collective/mpi and the start of a job need:
// non-blocking sends and receives of bytes, and their completion.
//
// A process has one Process: MPI is initialized once, by the first call of Join. One goroutine, locked to
// its thread, makes all calls of MPI, so the library needs no support for threads beyond MPI_THREAD_FUNNELED.
// It polls: for 50 microseconds after the last event without a pause, then with pauses that grow to one
// millisecond while a request is awaited, and to five otherwise. A message that arrives during a pause
// waits for its end. Without requests the goroutine sleeps.
//
// MPI reads and writes only memory outside the Go heap (Buffer), also after the caller has given up.
package mpi
