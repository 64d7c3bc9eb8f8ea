// Package monitor takes what a run has to say about each step and each evaluation, and shows
// or keeps it. It measures nothing but this process's memory, decides nothing, and never
// stops a run: a sink that fails is reported once.
//
// A Record is one step, an Evaluation one evaluation. A Sink takes both:
//
//	OpenJSONL       metrics.jsonl, a line a record: the contract with other programs
//	OpenTensorBoard event files
//	NewLine         one line of text a step, where there is no terminal
//	NewView         a live view, where there is one
//
// Multi hands each record to all of them:
//
//	sinks := monitor.Multi(func(err error) { slog.Warn(err.Error()) }, jsonl, monitor.Every(10, line))
//	sinks.Record(r)
//	sinks.Close()
//
// Rank 0 alone has sinks. They are called from one goroutine. Where another process shows the
// run, as a launcher does that owns the terminal, rank 0 has a NewJSONL on a pipe and that
// process copies them to its sinks by CopyJSONL.
package monitor
