// Package flight is a flight recorder: each rank records its last collectives and its current activity, and
// Diagnose finds from the states of all ranks which rank did not reach which collective, and why.
//
// A Recorder is written by its rank without locks or allocations, and can be read at any time: by Snapshot in
// the same process, or from its file (Attach), which is mapped, so it also has the state of a rank that was
// killed. Parse reads both.
//
//	rec := flight.New(flight.Identity{Rank: 5, Size: 8})
//	err := rec.Attach("logs/rank-0005.state")
//	g := rec.Group(key, "shard", ranks)
//	e := g.Begin(flight.Op{Kind: "all_gather", Seq: 12, Tag: "layer 3", Peer: -1})
//	...
//	e.End()
//	defer rec.Leave(rec.Enter(flight.Saving, "step-12"))
//
// Methods of a nil Recorder do nothing. The package does not send states (rendezvous) or print them (internal/cli).
package flight
