package data

import (
	"fmt"

	"trireme/fault"
)

// State is a position in the data: the next sample of a run. It is the same on all ranks and
// independent of their number.
type State struct {
	Epoch   int64  `json:"epoch"`   // completed epochs
	Sample  int64  `json:"sample"`  // samples used in this epoch
	Step    int64  `json:"step"`    // global batches since the run started
	Samples int64  `json:"samples"` // samples since the run started
	Seed    uint64 `json:"seed"`
	Len     int    `json:"len"` // rows of the dataset, to detect changes
}

// Sampler orders the rows of a dataset: one list per epoch, the same on all ranks. An epoch is a
// permutation of the n rows seeded with seed + epoch, or 0..n-1 without shuffle. It is rounded up
// to whole global batches by repeating from its start, or down with dropLast. With R ranks and a
// micro-batch of 1, rank r gets the samples of DistributedSampler: r, r+R, r+2R ... With larger
// micro-batches a global batch has the same samples as DistributedSampler's, grouped by rank in
// another way, which does not change the sum over the batch.
//
// The permutation of the current epoch takes four bytes per row. It is computed as it is used, so an epoch
// begins without a pause; a restored position computes what comes before it in the epoch once.
type Sampler struct {
	n        int
	batch    int // samples per global batch
	seed     uint64
	shuffle  bool
	dropLast bool
	at       State
	epoch    int64 // perm's epoch
	perm     *permutation
}

// NewSampler orders n rows in global batches of batch samples.
func NewSampler(n, batch int, seed uint64, shuffle, dropLast bool) (*Sampler, error) {
	switch {
	case batch < 1:
		return nil, fmt.Errorf("data: global batch of %d samples", batch)
	case n < batch:
		return nil, fmt.Errorf("data: %d rows do not fill a global batch of %d", n, batch)
	case n > maxPermutation:
		return nil, fault.Try(fmt.Errorf("data: %d samples exceed the maximum of %d for shuffling", n, maxPermutation), "%s", fault.Set("data.shuffle", "false"))
	}
	return &Sampler{n: n, batch: batch, seed: seed, shuffle: shuffle, dropLast: dropLast,
		at: State{Seed: seed, Len: n}, epoch: -1}, nil
}

// StepsPerEpoch returns the number of global batches of an epoch.
func (s *Sampler) StepsPerEpoch() int64 {
	if s.dropLast {
		return int64(s.n / s.batch)
	}
	return int64((s.n + s.batch - 1) / s.batch)
}

// State returns the position of the next global batch.
func (s *Sampler) State() State { return s.at }

// Index returns row i of the next global batch, 0 <= i < batch.
func (s *Sampler) Index(i int) int {
	k := (s.at.Sample + int64(i)) % int64(s.n)
	if !s.shuffle {
		return int(k)
	}
	if s.perm == nil {
		s.perm = newPermutation(s.n)
	}
	if s.epoch != s.at.Epoch {
		s.perm.start(s.seed + uint64(s.at.Epoch))
		s.epoch = s.at.Epoch
	}
	return s.perm.at(int(k))
}

// Advance moves to the next global batch.
func (s *Sampler) Advance() {
	s.at.Step++
	s.at.Samples += int64(s.batch)
	s.at.Sample += int64(s.batch)
	left := int64(s.n) - s.at.Sample
	if left <= 0 || s.dropLast && left < int64(s.batch) {
		s.at.Epoch++
		s.at.Sample = 0
	}
}

// Restore continues at a stored position, which may come from a run with another global batch: each
// sample of the epoch is still used once.
func (s *Sampler) Restore(at State) error {
	switch {
	case at.Len != s.n:
		return fault.Try(fmt.Errorf("data: the dataset has %d rows, the checkpoint's had %d", s.n, at.Len), "the original data with the same data.sequence_length and data.packing, or %s", fault.Set("resume", "none"))
	case at.Seed != s.seed && s.shuffle:
		return fault.Try(fmt.Errorf("data: training.seed is %d, the checkpoint's data order has seed %d", s.seed, at.Seed), "%s, or %s", fault.Set("training.seed", at.Seed), fault.Set("resume", "none"))
	case at.Epoch < 0 || at.Sample < 0 || at.Sample >= int64(s.n) || at.Step < 0 || at.Samples < 0:
		return fmt.Errorf("data: invalid position %+v", at)
	}
	s.at = at
	if s.dropLast && int64(s.n)-at.Sample < int64(s.batch) {
		s.at.Epoch++
		s.at.Sample = 0
	}
	s.at.Seed = s.seed
	return nil
}
