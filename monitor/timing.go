package monitor

import (
	"encoding/json"

	"trireme/trace"
)

// Ranks has times of every rank, in seconds, by rank. Times are of the period between the last all-reduces of two
// steps, without evaluations and checkpoints in between.
type Ranks struct {
	Own  []float64 `json:"own"`  // without waits for other ranks: data, computation, files
	Data []float64 `json:"data"` // of Own, the wait for the loader's batch
	Comm []float64 `json:"comm"` // waits for communication: for its data and for slower ranks
	Save []float64 `json:"save"` // own time of a checkpoint since the step before, without waits for other ranks
}

// MaxRanks is the number of ranks above which records have no Ranks.
const MaxRanks = 64

// commOps writes the sums per operation and axis.
func (w *object) commOps(name string, m map[string]trace.CommOp) {
	inner := object{b: append([]byte{}, '{')}
	for _, k := range sortedKeys(m) {
		op := object{b: append([]byte{}, '{')}
		op.integer("count", int64(m[k].Count))
		op.integer("bytes", m[k].Bytes)
		op.float("seconds", m[k].Seconds)
		op.float("exposed", m[k].Exposed)
		inner.raw(k, string(op.end()))
	}
	w.raw(name, string(inner.end()))
}

// split writes the categories. program is left out where nothing is compiled.
func (w *object) split(name string, s trace.Split) {
	inner := object{b: append([]byte{}, '{')}
	inner.float("data", s.Data)
	inner.float("forward", s.Forward)
	inner.float("backward", s.Backward)
	inner.float("recompute", s.Recompute)
	inner.float("optimizer", s.Optimizer)
	inner.float("publish", s.Publish)
	inner.float("offload", s.Offload)
	inner.float("comm", s.Comm)
	inner.float("wait", s.Wait)
	if s.Program > 0 {
		inner.float("program", s.Program)
	}
	inner.float("other", s.Other)
	w.raw(name, string(inner.end()))
}

// marshal writes a value whose numbers are finite.
func (w *object) marshal(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // no value of the callers fails
	}
	w.raw(name, string(b))
}
