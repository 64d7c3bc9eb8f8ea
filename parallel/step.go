package parallel

import (
	"context"

	"trireme/collective"
	"trireme/tensor"
)

// Begin starts a step of accumulation micro-batches on each rank, or, not training, a pass that
// only adds up losses.
func (e *Engine) Begin(ctx context.Context, accumulation int, training bool) {
	if !e.copied && e.precision.Param != tensor.F32 {
		panic("parallel: Begin before Refresh")
	}
	e.ctx = ctx
	e.step.accumulation, e.step.training, e.step.micro = accumulation, training, -1
	e.step.waited = 0
	e.plan(training)
	for _, f := range e.flats {
		f.begin()
	}
	e.b.Fill(e.stats, 0)
}

// NextMicroBatch says that the next micro-batch begins.
func (e *Engine) NextMicroBatch() {
	e.complete()
	e.step.micro++
}

// complete ends a micro-batch for the units that it did not run: they are freed, and
// their part of the gradient is zero. Every rank runs the same units.
func (e *Engine) complete() {
	e.freeAll()
	for _, f := range e.flats {
		if e.step.training && !f.frozen && f.batches <= e.step.micro {
			e.reduce(f)
		}
	}
}

// ReserveSums says what AddSums will be given besides the loss: so many sums of every pass, and then
// so many that only passes which do not train add up.
func (e *Engine) ReserveSums(sums, scores int) {
	e.more, e.scores = sums, scores
	if n := sums + scores; n > 0 {
		e.stats.Release()
		e.stats = e.b.New(tensor.Workspace, tensor.I64, statWords+n*tensor.ExactWords)
		e.sums = e.b.New(tensor.Workspace, tensor.F64, n)
	}
}

// AddSums adds what a micro-batch summed (F64): its loss, and what Measure said.
func (e *Engine) AddSums(sums *tensor.Tensor) {
	for i := range 1 + e.added() {
		e.b.ExactAdd(e.sum(i), sums.Flat(i, i+1))
	}
}

// added is how many sums besides the loss this pass adds up.
func (e *Engine) added() int {
	if e.step.training {
		return e.more
	}
	return e.more + e.scores
}

// The words that ranks add up once a step: the exact sum of the squared gradient, the numbers
// of counted tokens, of tokens read and of FLOPs, votes, and exact sums, of which the loss is the first.
func (e *Engine) squares() *tensor.Tensor { return e.stats.Flat(0, tensor.ExactWords) }
func (e *Engine) counts() *tensor.Tensor {
	return e.stats.Flat(tensor.ExactWords, tensor.ExactWords+3)
}
func (e *Engine) votes() *tensor.Tensor {
	return e.stats.Flat(tensor.ExactWords+3, tensor.ExactWords+3+int(numVotes))
}
func (e *Engine) sum(i int) *tensor.Tensor {
	at := tensor.ExactWords + 3 + int(numVotes) + i*tensor.ExactWords
	return e.stats.Flat(at, at+tensor.ExactWords)
}

// statWords is the length of what ranks add up once a step, without further sums.
const statWords = 2*tensor.ExactWords + 3 + int(numVotes)

// CountTokens says how many tokens this rank reads in this step, those without a label too, and how many
// FLOPs the model needs for them.
func (e *Engine) CountTokens(tokens int64, flops float64) {
	e.step.read = [2]int64{tokens, int64(flops)}
}

// Vote is a request of one rank that all ranks see at the end of a step.
type Vote uint8

// The votes.
const (
	VoteStop      Vote = iota // stop the run after this step
	VoteLowMemory             // this rank is short of memory
	numVotes
)

// Vote casts vote v for the current step.
func (e *Engine) Vote(v Vote) { e.step.votes[v] = 1 }

// Result is what all ranks added up in a step or a pass. Its methods wait until that is known; the
// steps that follow do not change it.
type Result struct{ scalars, counts, votes, sums func() []byte }

// Result reads the last pass's, without waiting for it.
func (e *Engine) Result() *Result {
	r := &Result{scalars: tensor.DownloadAsync(e.b, e.scalars), counts: tensor.DownloadAsync(e.b, e.counts()), votes: tensor.DownloadAsync(e.b, e.votes())}
	if e.sums != nil {
		r.sums = tensor.DownloadAsync(e.b, e.sums)
	}
	return r
}

// Scalars are the step's numbers, by tensor.Scalar*.
func (r *Result) Scalars() []float64 { return tensor.FromBytes[float64](r.scalars()) }

// TotalTokens is how many tokens all ranks read, and the FLOPs for them.
func (r *Result) TotalTokens() (tokens int64, flops float64) {
	n := tensor.FromBytes[int64](r.counts())
	return n[1], float64(n[2])
}

// Votes returns the number of ranks that voted v.
func (r *Result) Votes(v Vote) int64 { return tensor.FromBytes[int64](r.votes())[v] }

// Sums are what Measure asked for besides the loss; nil where that is nothing.
func (r *Result) Sums() []float64 {
	if r.sums == nil {
		return nil
	}
	return tensor.FromBytes[float64](r.sums())
}

// Finish waits for the reductions, and makes the step's numbers (F64 [tensor.ScalarCount]) of
// what all ranks have: each squares the gradients that it alone owns, and one small all-reduce
// adds up. tokens are this rank's counted tokens; begin (F64
// [1], or nil: 1) is what losses' gradients began as. The result stays valid until the next Finish.
func (e *Engine) Finish(tokens int64, maxNorm float64, begin *tensor.Tensor) *tensor.Tensor {
	e.step.unit = nil
	e.complete()
	e.drain(0)
	if e.step.training {
		for _, f := range e.flats {
			if !f.frozen {
				f.finish()
				e.b.ExactSquares(e.squares(), f.at(f.grad, f.layout.grad, f.own), nil)
			}
		}
	}
	e.b.Upload(e.counts(), tensor.AsBytes([]int64{tokens, e.step.read[0], e.step.read[1]}))
	e.b.Upload(e.votes(), tensor.AsBytes(e.step.votes[:]))
	e.step.votes, e.step.read = [numVotes]int64{}, [2]int64{}
	e.b.Upload(e.maxNorm, tensor.AsBytes([]float64{maxNorm}))
	used := e.stats.Flat(0, statWords+e.added()*tensor.ExactWords)
	e.wait(e.issue(func(ctx context.Context) error { return e.mesh.World.AllReduce(ctx, used, collective.Sum, "step") }))
	if e.sums != nil {
		e.b.ExactValues(e.sums, e.stats.Flat(statWords, e.stats.Elems()))
	}
	e.b.StepScalars(e.scalars, e.squares(), e.sum(0), e.counts().Flat(0, 1), e.maxNorm, begin)
	return e.scalars
}

// Publish makes the parameters that compute from updated masters, and sends them to the ranks
// that keep them whole but did not update them. The next forward pass waits for each unit's.
func (e *Engine) Publish() {
	for _, f := range e.flats {
		if !f.frozen {
			e.publish(f)
		}
	}
}

func (e *Engine) publish(f *flat) {
	if isFar(f.param) {
		return
	}
	mine := f.at(f.param, f.layout.param, f.optim)
	if f.master != f.param && !f.streams() {
		e.b.Copy(mine, f.master)
	}
	if f.optim.n() < f.layout.param.n() {
		f.update(e.issue(func(ctx context.Context) error { return e.mesh.Group(Shard).AllGather(ctx, f.param, mine, f.unit.Name) }))
	}
}
