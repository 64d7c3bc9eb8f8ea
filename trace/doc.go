// Package trace records where a rank's time goes: spans with a start, an end, a kind and the unit or operation
// that they are for.
//
// A Recorder keeps the last spans of one rank in a ring. Any goroutine records without locks and, once a name is
// known, without allocations; any goroutine may read at any time. Recording a span costs about 100 ns, so it is
// always on.
//
//	rec := trace.New(0)
//	rec.SetStep(12)
//	m := rec.Begin(trace.Span{Stream: trace.Compute, Kind: trace.Forward, Unit: "layers.3"})
//	...
//	rec.End(m)
//	spans := rec.Steps(12, 12)
//
// Times are nanoseconds of Now's clock, which all processes of a host share on Linux, so spans of one host need no
// alignment. Methods of a nil Recorder do nothing.
//
// The package does not write files (internal/tracefile) and does not judge (internal/verdict).
package trace
