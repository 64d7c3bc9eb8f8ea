// Package monitor displays and records the steps and evaluations of a run. It measures only this
// process's memory and never stops a run: the first error of a sink is reported, later ones are not.
//
// A Record describes a step, an Evaluation an evaluation. Sinks receive both:
//
//	OpenJSONL       metrics.jsonl, one record per line, for other programs
//	OpenTensorBoard TensorBoard event files
//	NewLine         one line of text per step, for files and pipes
//
// Multi combines sinks:
//
//	sinks := monitor.Multi(func(err error) { slog.Warn(err.Error()) }, jsonl, monitor.Every(10, line))
//	sinks.Record(r)
//	sinks.Close()
//
// Only rank 0 has sinks. They are called from one goroutine. If the launcher owns the terminal, rank 0
// writes JSON lines to a pipe, and the launcher passes them to its sinks with CopyJSONL.
package monitor
