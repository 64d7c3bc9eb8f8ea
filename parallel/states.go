package parallel

import (
	"fmt"
	"slices"

	"trireme/tensor"
)

// paramState is where the parameters that compute of a flat are.
type paramState uint8

// The states. A flat that is whole on each rank, in memory, is ready from the beginning and goes
// to updating and back only.
const (
	resting  paramState = iota // a part of them or a file is all there is
	arriving                   // a gather fills full
	ready                      // whole: they may be read
	updating                   // whole; new values come from other ranks
)

func (s paramState) String() string {
	return [...]string{"at rest", "arriving", "ready", "updating"}[s]
}

// gradState is where the gradients of a flat are.
type gradState uint8

// The states. Every micro-batch takes a flat through writing and reducing.
const (
	empty    gradState = iota // nothing of this step is in them
	writing                   // a bucket takes those of a micro-batch
	reducing                  // what has been written is in grad, or on its way
	reduced                   // grad is that of the step, where this rank reduces it
)

func (s gradState) String() string {
	return [...]string{"empty", "being written", "being reduced", "reduced"}[s]
}

// states are what a flat goes through in a step, with what each state holds. Only the methods in
// this file change them; one that the state does not allow panics with both.
type states struct {
	values paramState
	full   *tensor.Tensor // [padded], but at rest; param itself where that is whole
	part   *tensor.Tensor // while arriving: what param has, on its way from a file to full; or nil
	under  *ticket        // while arriving or updating

	grads   gradState
	bucket  *tensor.Tensor // [padded], while being written: this micro-batch's, Precision.Reduce
	batches int            // micro-batches of this step that are in grad, or on their way
}

func allow[S interface {
	comparable
	fmt.Stringer
}](what, change string, is S, from ...S) {
	if !slices.Contains(from, is) {
		panic(fmt.Sprintf("parallel: %s that are %v cannot %s", what, is, change))
	}
}

// hold makes the parameters ready for good: they are whole here.
func (s *states) hold(whole *tensor.Tensor) {
	allow("parameters", "be held", s.values, resting)
	s.values, s.full = ready, whole
}

// gather has t fill full, through part where that is not nil.
func (s *states) gather(full, part *tensor.Tensor, t *ticket) {
	allow("parameters", "be gathered", s.values, resting)
	s.values, s.full, s.part, s.under = arriving, full, part, t
}

// update has new values under way to parameters that are whole.
func (s *states) update(t *ticket) {
	allow("parameters", "be updated", s.values, ready, updating)
	s.values, s.under = updating, t
}

// arrive makes parameters ready whose ticket is done. It returns what carried them, or nil.
func (s *states) arrive() (part *tensor.Tensor) {
	allow("parameters", "arrive", s.values, arriving, updating)
	part = s.part
	s.values, s.part, s.under = ready, nil, nil
	return part
}

// free puts gathered parameters to rest and returns the copy, for its release.
func (s *states) free() (full *tensor.Tensor) {
	allow("parameters", "be freed", s.values, ready)
	full = s.full
	s.values, s.full = resting, nil
	return full
}

// begin forgets the gradients of the step before.
func (s *states) begin() {
	allow("gradients", "be forgotten", s.grads, empty, reduced)
	s.grads, s.batches = empty, 0
}

// open has gradients of a micro-batch written to bucket.
func (s *states) open(bucket *tensor.Tensor) {
	allow("gradients", "be written", s.grads, empty, reducing)
	s.grads, s.bucket = writing, bucket
}

// close takes the bucket, which is written, for its reduction. first says that grad has nothing yet.
func (s *states) close() (bucket *tensor.Tensor, first bool) {
	allow("gradients", "be reduced", s.grads, writing)
	bucket, first = s.bucket, s.batches == 0
	s.grads, s.bucket = reducing, nil
	s.batches++
	return bucket, first
}

// finish says that all reductions are done.
func (s *states) finish() {
	allow("gradients", "be finished", s.grads, reducing)
	s.grads = reduced
}
