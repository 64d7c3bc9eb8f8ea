// Package mpi passes messages by a system's MPI library: MPICH (also Intel MPI and others with its binary
// interface) or Open MPI, found at run time. It has what collective/mpi and the start of a job need:
// non-blocking sends and receives of bytes, and their completion.
//
// A process has one Process: MPI is initialized once, by the first call of Join. One goroutine makes all calls
// of MPI: on any thread if the library has MPI_THREAD_SERIALIZED, else on one thread (MPI_THREAD_FUNNELED).
// It polls: without a pause for 50 microseconds after the last event, then every 0.1 ms or less for 5 ms, then
// every millisecond, or every five if nobody awaits a request. A message that arrives during a pause waits for its
// end. Without requests the goroutine sleeps.
//
// MPI reads and writes only memory outside the Go heap (Buffer), also after the caller has given up.
package mpi
