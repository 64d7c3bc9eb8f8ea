package data

import (
	"fmt"

	"trireme/fault"
)

// State is a position in the data: the next sample of a run. It is the same for every rank
// and says nothing of how many there are, so a run may go on in a world of another size.
type State struct {
	Epoch   int64  `json:"epoch"`   // passes that are done
	Sample  int64  `json:"sample"`  // samples of this epoch that are done
	Step    int64  `json:"step"`    // global batches since the run began
	Samples int64  `json:"samples"` // samples since the run began
	Seed    uint64 `json:"seed"`
	Len     int    `json:"len"` // rows of the dataset, to notice that it changed
}

// Sampler is the order in which a run uses the rows of a dataset: one list per epoch,
// identical for every world. An epoch is a permutation of the n rows seeded with seed +
// epoch (or 0..n-1 in order), and is rounded up to whole global batches by repeating from
// its front, or down with DropLast. With R ranks and a micro-batch of 1, rank r's part is
// what DistributedSampler gives it: samples r, r+R, r+2R ... With larger micro-batches a
// global batch still holds the same samples as DistributedSampler's, grouped by rank in
// another way, which the sum over the batch does not notice.
//
// The permutation is kept while its epoch lasts: four bytes a row.
type Sampler struct {
	n        int
	batch    int // samples of a global batch
	seed     uint64
	shuffle  bool
	dropLast bool
	at       State
	epoch    int64 // of perm
	perm     []uint32
}

// NewSampler begins the order of n rows in global batches of batch samples.
func NewSampler(n, batch int, seed uint64, shuffle, dropLast bool) (*Sampler, error) {
	switch {
	case batch < 1:
		return nil, fmt.Errorf("data: a global batch of %d samples", batch)
	case n < batch:
		return nil, fmt.Errorf("data: %d rows for a global batch of %d: they do not fill it", n, batch)
	case n > maxPermutation:
		return nil, fault.Try(fmt.Errorf("data: %d samples are more than the %d that can be put in order", n, maxPermutation), "%s", fault.Set("data.shuffle", "false"))
	}
	return &Sampler{n: n, batch: batch, seed: seed, shuffle: shuffle, dropLast: dropLast,
		at: State{Seed: seed, Len: n}, epoch: -1}, nil
}

// StepsPerEpoch is the number of global batches of an epoch.
func (s *Sampler) StepsPerEpoch() int64 {
	if s.dropLast {
		return int64(s.n / s.batch)
	}
	return int64((s.n + s.batch - 1) / s.batch)
}

// State is the position of the next global batch.
func (s *Sampler) State() State { return s.at }

// Index gives the row at place i of the global batch that comes next, 0 <= i < batch.
func (s *Sampler) Index(i int) int {
	k := (s.at.Sample + int64(i)) % int64(s.n)
	if !s.shuffle {
		return int(k)
	}
	if s.epoch != s.at.Epoch {
		s.perm, s.epoch = Permutation(s.n, s.seed+uint64(s.at.Epoch)), s.at.Epoch
	}
	return int(s.perm[k])
}

// Advance goes to the next global batch.
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

// Restore goes to a stored position, which may come from a run with another global batch:
// no sample of the epoch is left out or used twice.
func (s *Sampler) Restore(at State) error {
	switch {
	case at.Len != s.n:
		return fault.Try(fmt.Errorf("data: the dataset has %d rows, the stored position is in one of %d", s.n, at.Len), "the data that the run began with, or %s", fault.Set("resume", "none"))
	case at.Seed != s.seed && s.shuffle:
		return fault.Try(fmt.Errorf("data: the data's seed is %d, the stored position is in an order with seed %d", s.seed, at.Seed), "%s, or %s", fault.Set("training.seed", at.Seed), fault.Set("resume", "none"))
	case at.Epoch < 0 || at.Sample < 0 || at.Sample >= int64(s.n) || at.Step < 0 || at.Samples < 0:
		return fmt.Errorf("data: no such position: %+v", at)
	}
	s.at = at
	if s.dropLast && int64(s.n)-at.Sample < int64(s.batch) {
		s.at.Epoch++
		s.at.Sample = 0
	}
	s.at.Seed = s.seed
	return nil
}
