// Package record traces a training step into programs that a compiler could take, instead of
// running it. A step of several micro-batches is a program each (tensor.Compile).
//
// A Backend wraps another one. Outside a step it forwards operations. Within Backend.Record it
// records them without running any, and returns a Recording: a Program, equal for all steps and
// ranks, and its bindings for this step and rank (uploaded inputs, buffers, coordinates). Replay
// interprets a Program on the wrapped backend, with the bits of direct execution. Tests use it to
// show that a Program is complete; on a device a compiler would replace it. Program.Roll makes loops of
// alike operations, such as those of a model's layers, for a compiler; ReplayRolled interprets them.
//
// A Program is in static single assignment form over ranges of buffers: a write creates a version
// of its range, a read refers to one. A range that depends on the rank (tensor.Part) has a symbolic
// coordinate. Buffers from outside the program are constants (read only), state (read and written),
// outputs (written first) or, in the last program of a step, scratch (written first, undefined
// afterwards). Uploads are inputs, tensor.DownloadAsync reads results.
//
// A step cannot be recorded if it reads a value (Download), waits (Sync), accesses host memory
// (tensor.Host) or keeps a tensor that it allocated. It fails with an *Error, or a panic of package
// tensor, that names the operation.
//
// Methods of operations are generated from package tensor's interfaces.
package record

//go:generate go run ./generate
