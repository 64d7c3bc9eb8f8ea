package parallel

import (
	"context"

	"trireme/collective"
	"trireme/tensor"
)

// Begin starts a step of so many micro-batches on each rank, or, not training, a pass that
// only adds up losses.
func (e *Engine) Begin(ctx context.Context, accumulation int, training bool) {
	e.ctx = ctx
	e.step.accumulation, e.step.training, e.step.micro = accumulation, training, -1
	e.step.waited = 0
	for _, f := range e.flats {
		f.added = 0
	}
	e.b.Fill(e.stats, 0)
}

// NextMicroBatch says that the next micro-batch begins.
func (e *Engine) NextMicroBatch() {
	e.complete()
	e.step.micro++
}

// complete ends a micro-batch for the units that it did not run: they are let go of, and
// their part of the gradient is zero. Every rank runs the same units.
func (e *Engine) complete() {
	for i := range e.units {
		e.letGo(i)
	}
	for _, f := range e.flats {
		if e.step.training && !f.frozen && f.added <= e.step.micro {
			e.reduce(f)
		}
	}
}

// AddLoss adds the summed loss of a micro-batch (F64 [1]).
func (e *Engine) AddLoss(loss *tensor.Tensor) { e.b.ExactAdd(e.lossSum(), loss) }

// The words that ranks add up once a step: exact sums of the squared gradient and of the
// loss, the number of counted tokens, and votes.
func (e *Engine) squares() *tensor.Tensor { return e.stats.Flat(0, tensor.ExactWords) }
func (e *Engine) lossSum() *tensor.Tensor {
	return e.stats.Flat(tensor.ExactWords, 2*tensor.ExactWords)
}
func (e *Engine) tokens() *tensor.Tensor {
	return e.stats.Flat(2*tensor.ExactWords, 2*tensor.ExactWords+1)
}
func (e *Engine) votes() *tensor.Tensor {
	return e.stats.Flat(2*tensor.ExactWords+1, statWords)
}

// statWords is the length of what ranks add up once a step.
const statWords = 2*tensor.ExactWords + 2

// Vote asks all ranks, at the end of this step, for whatever Votes is then read for (a stop).
func (e *Engine) Vote() { e.step.vote = 1 }

// Votes is how many ranks voted in the last step.
func (e *Engine) Votes() int64 {
	v := []int64{0}
	e.b.Download(tensor.AsBytes(v), e.votes())
	return v[0]
}

// Finish waits for the reductions, and makes the step's numbers (F64 [tensor.ScalarCount]) of
// what all ranks have: each squares the gradients that it alone owns, and one small all-reduce
// adds up. tokens are this rank's counted tokens. The result stays valid until the next Finish.
func (e *Engine) Finish(tokens int64, maxNorm float64) *tensor.Tensor {
	e.step.unit = nil
	e.complete()
	e.drain(0)
	if e.step.training {
		for _, f := range e.flats {
			if !f.frozen {
				e.b.ExactSquares(e.squares(), f.at(f.grad, f.layout.grad, f.own))
			}
		}
	}
	e.b.Upload(e.tokens(), tensor.AsBytes([]int64{tokens}))
	e.b.Upload(e.votes(), tensor.AsBytes([]int64{e.step.vote}))
	e.step.vote = 0
	e.b.Upload(e.maxNorm, tensor.AsBytes([]float64{maxNorm}))
	e.wait(e.issue(func() collective.Work { return e.g.World.AllReduce(e.stats, collective.Sum, "step") }))
	e.b.StepScalars(e.scalars, e.squares(), e.lossSum(), e.tokens(), e.maxNorm)
	return e.scalars
}

// Publish sends updated parameters to the ranks that keep them whole but did not update
// them. The next forward pass waits for each unit's.
func (e *Engine) Publish() {
	for _, f := range e.flats {
		if f.frozen || f.optim.n() == f.layout.param.n() {
			continue
		}
		mine := f.at(f.param, f.layout.param, f.optim)
		f.publish = e.issue(func() collective.Work { return e.g.Shard.AllGather(f.param, mine, f.unit.Name) })
	}
}
