// Package record lists what a training step computes in place of computing it, so that a compiler
// can make one program of the step.
//
// A Backend stands before another one. Outside of a step it hands every operation on. Within
// Backend.Record operations are noted and nothing runs; the result is a Recording: a Program, which
// is the same for every step and every rank, and what is this step's and this rank's own: the
// inputs that the host uploaded, the buffers, the coordinates. Replay runs a Program on the backend
// behind, operation by operation. It computes the bits that direct execution does, which is how
// tests know that a list says all that a step does. A compiler takes its place on a device.
//
// A Program is in static single assignment over ranges of buffers: a write gives its range a new
// version, a read names the version that it finds. A range that depends on the rank (tensor.Part)
// has a coordinate in place of a number. Buffers that were there before the step are constants
// (read only), state (read and written) or scratch (written before they are read, and worth nothing
// after the step). What the host uploads within the step is an input, what it reads by tensor.DownloadAsync
// a result.
//
// A step cannot be recorded if it reads a value (Download), waits for one (Sync), touches a
// tensor's memory (tensor.Host) or keeps a tensor that it made. It fails with an *Error, or with
// package tensor's message, that names what it asked for.
//
// Methods of operations are generated from package tensor's interfaces: a new operation needs no
// line here.
package record

//go:generate go run ./generate
