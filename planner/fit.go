package planner

import (
	"context"
	"fmt"
	"sort"
)

// Batch is how the rows of a step are divided, with micro_batch_tokens if all are as long as may be.
type Batch struct {
	Micro        int `json:"micro_batch_size"`
	Accumulation int `json:"gradient_accumulation_steps"`
	Global       int `json:"global_batch_size"` // rows of a step over all ranks
}

// Batch is the job's.
func (j Job) Batch() (Batch, error) {
	t := j.Config.Training
	a, err := t.MaxAccumulation(j.Ranks, j.Positions)
	if t.MicroBatchTokens > 0 {
		return Batch{max(1, t.MicroBatchTokens/j.Positions), a, t.GlobalBatchSize}, err
	}
	return Batch{t.MicroBatchSize, a, t.MicroBatchSize * a * j.Ranks}, err
}

// withBatch is the job withBatch its rows divided in another way.
func (j Job) withBatch(b Batch) Job {
	t := &j.Config.Training
	if t.MicroBatchTokens > 0 {
		t.MicroBatchTokens = b.Micro * j.Positions
		return j
	}
	t.MicroBatchSize, t.GradientAccumulationSteps = b.Micro, b.Accumulation
	if t.GlobalBatchSize > 0 {
		t.GlobalBatchSize = b.Global
	}
	return j
}

// maxTokens bounds the micro-batches that are looked at.
const maxTokens = 1 << 24

// Largest finds the largest micro-batch with which a rank needs at most limit bytes: where
// global_batch_size is given, among those that make it up, with the accumulation that does; else
// with the accumulation as it is. The batch is zero where none fits.
func (j Job) Largest(ctx context.Context, limit int64) (Batch, error) {
	b, err := j.Batch()
	if err != nil {
		return Batch{}, err
	}
	var ways []Batch // by growing micro-batch; nil: all
	if j.Config.Training.GlobalBatchSize > 0 {
		for rows, micro := b.Global/j.Ranks, 1; micro <= rows; micro++ {
			if rows%micro == 0 {
				ways = append(ways, Batch{micro, rows / micro, b.Global})
			}
		}
	}
	way := func(i int) Batch {
		if ways != nil {
			return ways[i]
		}
		return Batch{i + 1, b.Accumulation, (i + 1) * b.Accumulation * j.Ranks}
	}
	most := max(1, maxTokens/j.Positions)
	if ways != nil {
		most = sort.Search(len(ways), func(i int) bool { return i > 0 && ways[i].Micro > most })
	}
	need := func(i int) (int64, error) {
		p, err := j.withBatch(way(i)).Run(ctx, 0)
		return p.Memory.PeakTotal, err
	}
	n, err := countFitting(most, limit, func(i int) int64 { return int64(way(i).Micro) }, need)
	if err != nil || n == 0 {
		return Batch{}, err
	}
	return way(n - 1), nil
}

// countFitting is how many of n sizes, which grow, need at most limit. What a size needs grows almost
// in proportion to it, so that a line through two finds the place, or nearly.
func countFitting(n int, limit int64, size func(i int) int64, need func(i int) (int64, error)) (int, error) {
	lo, hi := 0, n      // sizes below lo fit, those from hi on do not
	var x, y [2]float64 // the last two sizes that were looked at, and what they need
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
