package train

import (
	"fmt"

	"trireme/fault"
	"trireme/monitor"
	"trireme/parallel"
)

// pressure implements activation_checkpointing.memory_threshold: layers are recomputed on all ranks
// once a step exceeds the threshold on one. This is permanent, since a row of the same length would
// exceed it again.
type pressure struct {
	threshold int64 // bytes of this rank
	limit     int64 // bytes; threshold is a fraction of it
	every     int64 // steps between checks; 0 is off
	used      int64 // peak of the last step
}

// delayed reports whether recomputation starts only when memory is short.
func (c Recompute) delayed() bool { return c.Enabled && c.MemoryThreshold > 0 }

// pressure returns the threshold of each of localRanks ranks on this machine.
func (cfg Config) pressure(localRanks int) (p pressure, err error) {
	c := cfg.Recompute
	if !c.delayed() {
		return p, nil
	}
	limit := int64(cfg.Device.MemoryLimit)
	if limit == 0 {
		has, err := monitor.ReadAvailable()
		if err != nil {
			return p, fault.Try(fmt.Errorf("train: activation_checkpointing.memory_threshold needs the available memory: %w", err), "%s", fault.Set("device.memory_limit", "8GiB"))
		}
		limit = has.Bytes
	}
	p.limit, p.every = limit/int64(max(1, localRanks)), int64(c.CheckEveryNSteps)
	p.threshold = int64(c.MemoryThreshold * float64(p.limit))
	return p, nil
}

// short reports whether a check is due after step and the step exceeded the threshold.
func (p pressure) short(step int64) bool {
	return p.every > 0 && step > 0 && step%p.every == 0 && p.used > p.threshold
}

// voteRecompute is called before a step. It votes if this rank exceeded the threshold in the last one.
func (r *Run) voteRecompute() {
	if !r.state.Recomputing && r.pressure.short(r.state.Step) {
		r.engine.Vote(parallel.VoteLowMemory)
	}
}

// startRecompute is called after a step with the number of votes. If there are any, layers are
// recomputed from the next step.
func (r *Run) startRecompute(short int64) error {
	if r.state.Recomputing || r.pressure.every == 0 || short == 0 {
		return nil
	}
	r.state.Recomputing = true
	r.Config.Recompute.Apply(r.model.Units())
	p := r.pressure
	return r.sink.Note(fmt.Sprintf("activation_checkpointing.memory_threshold exceeded on %d of %d ranks: step %d used %s on this rank, the threshold is %s of %s; recomputing layers from step %d on",
		short, r.deps.World.Size(), r.state.Step, monitor.Bytes(p.used), monitor.Bytes(p.threshold), monitor.Bytes(p.limit), r.state.Step+1))
}
