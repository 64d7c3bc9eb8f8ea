package parallel

import (
	"fmt"
	"slices"

	"trireme/tensor"
)

type paramState uint8

// The parameter states. A flat that every rank keeps unsharded in memory is only ready or updating.
const (
	sharded   paramState = iota // only a shard, a file, or a master to cast
	gathering                   // an all-gather fills full
	ready                       // full may be read
	updating                    // other ranks send new values to full
)

func (s paramState) String() string {
	return [...]string{"sharded", "gathering", "ready", "updating"}[s]
}

type gradState uint8

// The gradient states. Every micro-batch goes through writing and reducing.
const (
	empty    gradState = iota // no gradient of this step
	writing                   // operations write a micro-batch's gradients to the bucket
	reducing                  // written gradients are in grad, or being reduced
	reduced                   // grad is the step's gradient, on the ranks that reduce it
)

func (s gradState) String() string {
	return [...]string{"empty", "being written", "being reduced", "reduced"}[s]
}

// states is the state machine of a flat within a step. Only the methods in this file change it; an
// invalid transition panics.
type states struct {
	values paramState
	full   *tensor.Tensor // [padded], unless sharded; param itself if that is unsharded
	part   *tensor.Tensor // while gathering: the shard read from a file; or nil
	under  *ticket        // while gathering or updating

	grads   gradState
	bucket  *tensor.Tensor // [padded] Precision.Reduce, while writing: this micro-batch's gradients
	batches int            // micro-batches of this step in grad, or being reduced
}

func allow[S interface {
	comparable
	fmt.Stringer
}](what, change string, is S, from ...S) {
	if !slices.Contains(from, is) {
		panic(fmt.Sprintf("parallel: %s in state %v cannot %s", what, is, change))
	}
}

// hold makes unsharded parameters ready: for the life of the engine, or until free.
func (s *states) hold(whole *tensor.Tensor) {
	allow("parameters", "be held", s.values, sharded)
	s.values, s.full = ready, whole
}

// gather records that t fills full, through the shard part unless nil.
func (s *states) gather(full, part *tensor.Tensor, t *ticket) {
	allow("parameters", "be gathered", s.values, sharded)
	s.values, s.full, s.part, s.under = gathering, full, part, t
}

func (s *states) update(t *ticket) {
	allow("parameters", "be updated", s.values, ready, updating)
	s.values, s.under = updating, t
}

// setReady makes parameters ready after their ticket is done. It returns part, for its release.
func (s *states) setReady() (part *tensor.Tensor) {
	allow("parameters", "become ready", s.values, gathering, updating)
	part = s.part
	s.values, s.part, s.under = ready, nil, nil
	return part
}

// free makes unsharded parameters sharded and returns full, for its release.
func (s *states) free() (full *tensor.Tensor) {
	allow("parameters", "be freed", s.values, ready)
	full = s.full
	s.values, s.full = sharded, nil
	return full
}

func (s *states) begin() {
	allow("gradients", "be zeroed", s.grads, empty, reduced)
	s.grads, s.batches = empty, 0
}

func (s *states) open(bucket *tensor.Tensor) {
	allow("gradients", "be written", s.grads, empty, reducing)
	s.grads, s.bucket = writing, bucket
}

// close returns the written bucket, for its reduction. first reports whether grad is still empty.
func (s *states) close() (bucket *tensor.Tensor, first bool) {
	allow("gradients", "be reduced", s.grads, writing)
	bucket, first = s.bucket, s.batches == 0
	s.grads, s.bucket = reducing, nil
	s.batches++
	return bucket, first
}

func (s *states) finish() {
	allow("gradients", "be finished", s.grads, reducing)
	s.grads = reduced
}
