// Package tracefile reads and writes what the ranks of a job did over time.
//
// It writes Perfetto's trace format and Chrome's JSON, and reads both, the traces of PyTorch's profiler (Kineto: one
// file for each rank, JSON, also compressed by gzip), and directories of these. All become a Trace: the spans of
// each rank on one clock.
//
//	t, err := tracefile.Read("out/trace/steps-10-12.perfetto-trace")
//	for _, c := range t.Collectives() { ... c.Last is the rank that the others waited for }
//
// Traces of PyTorch's profiler become the spans that Trireme would have recorded (kineto.go): kernels on a device,
// or operators where there is none, are compute; NCCL's kernels and gloo's operations are collectives.
//
// The package does not judge (internal/tracereport) and records nothing (trace).
package tracefile
