package train

import (
	"fmt"

	"trireme/fault"
	"trireme/monitor"
	"trireme/parallel"
)

// pressure is activation_checkpointing.memory_threshold: layers are kept until memory is short on
// some rank, and from then on recomputed on all: where memory was short once, rows as long would
// make it short again.
type pressure struct {
	threshold int64 // bytes of this rank
	limit     int64 // bytes, of which most is a share
	every     int64 // steps; 0 where nothing is watched
	used      int64 // at the peak of the last step
}

// delayed says that layers are not computed again before memory is short.
func (c Recompute) delayed() bool { return c.Enabled && c.MemoryThreshold > 0 }

// pressure is what one of the ranks on this machine watches.
func (cfg Config) pressure(localRanks int) (p pressure, err error) {
	c := cfg.Recompute
	if !c.delayed() {
		return p, nil
	}
	limit := int64(cfg.Device.MemoryLimit)
	if limit == 0 {
		has, err := monitor.ReadAvailable()
		if err != nil {
			return p, fault.Try(fmt.Errorf("train: activation_checkpointing.memory_threshold is a share of memory: %w", err), "%s", fault.Set("device.memory_limit", "8GiB"))
		}
		limit = has.Bytes
	}
	p.limit, p.every = limit/int64(max(1, localRanks)), int64(c.CheckEveryNSteps)
	p.threshold = int64(c.MemoryThreshold * float64(p.limit))
	return p, nil
}

// short says whether the step that was the last used more than it should, where it is one after
// which that is asked.
func (p pressure) short(step int64) bool {
	return p.every > 0 && step > 0 && step%p.every == 0 && p.used > p.threshold
}

// voteRecompute is called before a step: if this rank was short of memory in the last one, it votes.
func (r *Run) voteRecompute() {
	if !r.state.Recomputing && r.pressure.short(r.state.Step) {
		r.engine.Vote(parallel.VoteLowMemory)
	}
}

// startRecompute is called after a step for which short ranks voted: if some did, all compute layers again from the next
// step on.
func (r *Run) startRecompute(short int64) error {
	if r.state.Recomputing || r.pressure.every == 0 || short == 0 {
		return nil
	}
	r.state.Recomputing = true
	r.Config.Recompute.Apply(r.model.Units())
	p := r.pressure
	return r.sink.Note(fmt.Sprintf("memory is short on %d of %d ranks: step %d used %s on this one, the threshold is %s of %s; layers are recomputed from step %d on",
		short, r.deps.World.Size(), r.state.Step, monitor.Bytes(p.used), monitor.Bytes(p.threshold), monitor.Bytes(p.limit), r.state.Step+1))
}
