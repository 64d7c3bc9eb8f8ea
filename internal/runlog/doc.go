// Package runlog reads the directory of a run, live or finished: identity, configuration, records of
// steps and evaluations, events and checkpoints. Everything that shows, judges or compares runs reads them
// here; nothing here writes to a run except its index.
//
//	run, err := runlog.Open(dir)
//	defer run.Close()
//	run.Metrics()                             // epoch, eval_loss, loss, lr, memory.parameters, ...
//	s, err := run.Series("loss", 1, 0, 1000)  // up to 1000 buckets over all steps
//	row, ok, err := run.At(500)               // the records of step 500
//	for u, err := range run.Follow(ctx) { ... } // new records and events as they are written
//
// A metric is a number of a record by its path: loss, memory.parameters, ranks.own.3. Numbers of an
// evaluation have their own names (eval_loss, accuracy), and its means are eval_means.NAME. Two more metrics
// are added: time (of the record, in seconds since 1970) and tokens_total (the tokens of all steps until then).
//
// # Index
//
// A record is a line of JSON, so a curve of a million steps would read a gigabyte. The index has the same
// numbers by column in chunks of up to 32768 rows, each with buckets of 32, 1024 and all rows (minimum,
// maximum, mean, last value and counts). A chunk is a file of the directory index of the run, or of the
// user's cache if that cannot be written. Chunks are built while reading, so opening a run the second time
// reads headers only. A chunk has checksums and names the bytes of metrics.jsonl that it covers with a
// digest of samples of them. One that does not match, for any reason, is built again from the records.
// A chunk is complete when it gets its name, so any number of readers and writers may be active.
//
// The step of records does not fall within a run: a resumed run first removes the records of later steps. A line with a
// lower step than a line before it is ignored, as is a line that is not a record.
package runlog
