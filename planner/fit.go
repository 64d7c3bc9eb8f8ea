package planner

import (
	"context"
	"fmt"
	"sort"
)

// Batch is the batch of a job. With micro_batch_tokens it assumes rows of maximum length.
type Batch struct {
	Micro        int `json:"micro_batch_size"`
	Accumulation int `json:"gradient_accumulation_steps"`
	Global       int `json:"global_batch_size"` // rows of a step over all ranks
}

// Batch returns the job's batch.
func (j Job) Batch() (Batch, error) {
	t := j.Config.Training
	a, err := t.MaxAccumulation(j.Ranks, j.Positions)
	if t.MicroBatchTokens > 0 {
		return Batch{max(1, t.MicroBatchTokens/j.Positions), a, t.GlobalBatchSize}, err
	}
	if t.GlobalBatchSize > 0 {
		return Batch{t.MicroBatchSize, a, t.GlobalBatchSize}, err
	}
	return Batch{t.MicroBatchSize, a, t.MicroBatchSize * a * j.Ranks}, err
}

// accumulation returns the micro-batches of a rank for a number of rows per step.
func (j Job) accumulation(rows, micro int) int { return (rows/micro + j.Ranks - 1) / j.Ranks }

func (j Job) withBatch(b Batch) Job {
	t := &j.Config.Training
	if t.MicroBatchTokens > 0 {
		t.MicroBatchTokens = b.Micro * j.Positions
		return j
	}
	t.MicroBatchSize, t.GradientAccumulationSteps = b.Micro, b.Accumulation
	if t.GlobalBatchSize > 0 { // determines the accumulation, also an uneven one
		t.GlobalBatchSize, t.GradientAccumulationSteps = b.Global, 0
	}
	return j
}

const maxTokens = 1 << 24

// Largest returns the largest micro-batch within limit, in bytes of a rank; zero if none fits. If
// global_batch_size is set, it keeps that by changing the accumulation; otherwise the accumulation
// stays.
func (j Job) Largest(ctx context.Context, limit int64) (Batch, error) {
	b, err := j.Batch()
	if err != nil {
		return Batch{}, err
	}
	var batches []Batch // by increasing micro-batch; nil: all
	if j.Config.Training.GlobalBatchSize > 0 {
		for micro := 1; micro*j.Ranks <= max(b.Global, j.Ranks); micro++ {
			if b.Global%micro == 0 && (b.Global%j.Ranks != 0 || b.Global/j.Ranks%micro == 0) {
				batches = append(batches, Batch{micro, j.accumulation(b.Global, micro), b.Global})
			}
		}
	}
	batch := func(i int) Batch {
		if batches != nil {
			return batches[i]
		}
		return Batch{i + 1, b.Accumulation, (i + 1) * b.Accumulation * j.Ranks}
	}
	most := max(1, maxTokens/j.Positions)
	if batches != nil {
		most = sort.Search(len(batches), func(i int) bool { return i > 0 && batches[i].Micro > most })
	}
	need := func(i int) (int64, error) {
		p, err := j.withBatch(batch(i)).Run(ctx, 0)
		return p.Memory.PeakTotal, err
	}
	n, err := countFitting(most, limit, func(i int) int64 { return int64(batch(i).Micro) }, need)
	if err != nil || n == 0 {
		return Batch{}, err
	}
	return batch(n - 1), nil
}

// countFitting returns how many of n increasing sizes need up to limit. The need is almost linear in the
// size, so it interpolates.
func countFitting(n int, limit int64, size func(i int) int64, need func(i int) (int64, error)) (int, error) {
	lo, hi := 0, n      // sizes below lo fit, those from hi on do not fit
	var x, y [2]float64 // the last two sizes and their needs
	for try := 0; lo < hi; try++ {
		guess := (lo + hi) / 2
		switch slope := (y[1] - y[0]) / (x[1] - x[0]); {
		case try < 2:
			guess = try
		case try%3 < 2 && slope > 0:
			most := x[1] + (float64(limit)-y[1])/slope
			guess = sort.Search(n, func(i int) bool { return float64(size(i)) > most }) - 1
		}
		guess = min(max(guess, lo), hi-1)
		bytes, err := need(guess)
		if err != nil {
			return 0, err
		}
		if bytes <= limit {
			lo = guess + 1
		} else {
			hi = guess
		}
		x, y = [2]float64{x[1], float64(size(guess))}, [2]float64{y[1], float64(bytes)}
	}
	return lo, nil
}

func (b Batch) String() string {
	return fmt.Sprintf("micro-batch %d with accumulation %d", b.Micro, b.Accumulation)
}
