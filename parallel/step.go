package parallel

import (
	"context"
	"time"

	"trireme/collective"
	"trireme/tensor"
	"trireme/trace"
)

// Max replaces v by the maximums over all ranks. All pass the same number of values. It waits, so
// call it outside tensor.Compile. On a backend without storage, ranks are alike.
func (e *Engine) Max(ctx context.Context, v []int64) error {
	return e.reduceNumbers(ctx, v, collective.Max, "shapes")
}

// Sum is Max with sums.
func (e *Engine) Sum(ctx context.Context, v []int64) error {
	return e.reduceNumbers(ctx, v, collective.Sum, "histograms")
}

func (e *Engine) reduceNumbers(ctx context.Context, v []int64, op collective.Op, tag string) error {
	if e.mesh.World.Size() == 1 || tensor.IsMeta(e.b) {
		return nil
	}
	return e.Guard(func() {
		e.ctx, e.step.unit = ctx, nil
		t := e.b.New(tensor.Workspace, tensor.I64, len(v))
		defer t.Release()
		e.b.Upload(t, tensor.AsBytes(v))
		e.wait(e.issue(allReduce(e.mesh.World, t, op, tag)))
		e.b.Download(tensor.AsBytes(v), t)
	})
}

// Begin starts a step of accumulation micro-batches per rank, or, if not training, an evaluation pass.
func (e *Engine) Begin(ctx context.Context, accumulation int, training bool) {
	if !e.refreshed && e.masters {
		panic("parallel: Begin before Refresh")
	}
	e.ctx = ctx
	e.step.accumulation, e.step.training, e.step.micro = accumulation, training, -1
	e.step.waited = 0
	if e.period.began.IsZero() {
		e.period.began = time.Now()
	}
	e.step.zeroed = training && accumulation > 1 && tensor.Static(e.b)
	e.plan(training)
	for _, f := range e.flats {
		f.begin()
		switch {
		case f.frozen:
		case !e.hold:
			e.freeGrad(f)
		case e.step.zeroed:
			e.b.Fill(f.grad, 0)
		}
	}
	e.b.Fill(e.stats, 0)
}

// NextMicroBatch starts the next micro-batch.
func (e *Engine) NextMicroBatch() {
	e.complete()
	e.step.micro++
	e.trace.SetMicro(e.step.micro)
}

// EndMicroBatch ends a micro-batch that is not the last of the step or pass, or a pass without a Finish. On a backend with static
// shapes a micro-batch is a program, which releases what it allocates: the reductions end with it.
// Elsewhere they overlap with the next micro-batch.
func (e *Engine) EndMicroBatch() {
	if tensor.Static(e.b) || !e.step.training {
		e.complete()
		e.drain(0)
	}
}

// complete ends a micro-batch: units that it did not run are resharded and their gradient is zero. Every
// rank runs the same units.
func (e *Engine) complete() {
	e.freeAll()
	for _, f := range e.flats {
		if e.step.training && !f.frozen && f.batches <= e.step.micro {
			e.reduce(f)
		}
	}
}

// ReserveSums sets the number of sums that AddSums takes besides the loss: sums in every pass, then
// scores in evaluation passes only.
func (e *Engine) ReserveSums(sums, scores int) {
	e.trainSums, e.evalSums = sums, scores
	if n := sums + scores; n > 0 {
		e.stats.Release()
		e.stats = e.b.New(tensor.Workspace, tensor.I64, e.statWords()+n*tensor.ExactWords)
		e.sums = e.b.New(tensor.Workspace, tensor.F64, n)
	}
}

// AddSums adds a micro-batch's sums (F64): its loss, then the sums of ReserveSums.
func (e *Engine) AddSums(sums *tensor.Tensor) {
	for i := range 1 + e.extraSums() {
		e.b.ExactAdd(e.sum(i), sums.Flat(i, i+1))
	}
}

func (e *Engine) extraSums() int {
	if e.step.training {
		return e.trainSums
	}
	return e.trainSums + e.evalSums
}

// The words of the all-reduce at the end of a step: the exact sum of squared gradients, counts (label
// tokens, tokens, FLOPs), votes, the times of each rank if there are several, and exact sums, first the loss.
func (e *Engine) squares() *tensor.Tensor { return e.stats.Flat(0, tensor.ExactWords) }
func (e *Engine) counts() *tensor.Tensor {
	return e.stats.Flat(tensor.ExactWords, tensor.ExactWords+3)
}
func (e *Engine) votes() *tensor.Tensor {
	return e.stats.Flat(tensor.ExactWords+3, tensor.ExactWords+3+int(numVotes))
}
func (e *Engine) times() *tensor.Tensor {
	at := tensor.ExactWords + 3 + int(numVotes)
	return e.stats.Flat(at, at+e.timeWords())
}
func (e *Engine) sum(i int) *tensor.Tensor {
	at := tensor.ExactWords + 3 + int(numVotes) + e.timeWords() + i*tensor.ExactWords
	return e.stats.Flat(at, at+tensor.ExactWords)
}

// timeWords is the number of ranks' times.
func (e *Engine) timeWords() int {
	if n := e.mesh.World.Size(); n > 1 {
		return n * rankWords(n)
	}
	return 0
}

// statWords is their number without sums besides the loss.
func (e *Engine) statWords() int { return 2*tensor.ExactWords + 3 + int(numVotes) + e.timeWords() }

// CountTokens sets the number of tokens that this rank reads in this step, with or without labels, and
// the model FLOPs for them.
func (e *Engine) CountTokens(tokens int64, flops float64) {
	e.step.read = [2]int64{tokens, int64(flops)}
}

// Vote is a request of one rank that all ranks see at the end of a step.
type Vote uint8

// The votes.
const (
	VoteStop      Vote = iota // stop the run after this step
	VoteLowMemory             // this rank is short of memory
	VoteTrace                 // trace steps; see TraceSteps
	VoteSave                  // save a checkpoint
	VoteSaved                 // see Saved
	numVotes
)

// Vote casts vote v for the current step.
func (e *Engine) Vote(v Vote) { e.step.votes[v] = 1 }

// TraceSteps asks all ranks with the current step to trace n steps. Result.Votes of VoteTrace has the sum over ranks.
func (e *Engine) TraceSteps(n int64) { e.step.votes[VoteTrace] = n }

// Saved casts n votes of VoteSaved with the current step: checkpoint.Saving.Votes.
func (e *Engine) Saved(n int64) { e.step.votes[VoteSaved] = n }

// Result holds the totals over all ranks of a step or pass. Its methods wait for them; later steps do
// not change it.
type Result struct {
	scalars, counts, votes, times, sums func() []byte
	world                               int
}

// Result returns the last pass's result without waiting.
func (e *Engine) Result() *Result {
	r := &Result{scalars: tensor.DownloadAsync(e.b, e.scalars), counts: tensor.DownloadAsync(e.b, e.counts()), votes: tensor.DownloadAsync(e.b, e.votes())}
	if e.timeWords() > 0 && !e.static { // else the host's time says nothing
		r.times, r.world = tensor.DownloadAsync(e.b, e.times()), e.mesh.World.Size()
	}
	if e.sums != nil {
		r.sums = tensor.DownloadAsync(e.b, e.sums)
	}
	return r
}

// Scalars returns the step's scalars, indexed by tensor.Scalar*.
func (r *Result) Scalars() []float64 { return tensor.FromBytes[float64](r.scalars()) }

// TotalTokens returns the tokens that all ranks read, and the model FLOPs for them.
func (r *Result) TotalTokens() (tokens int64, flops float64) {
	n := tensor.FromBytes[int64](r.counts())
	return n[1], float64(n[2])
}

// Votes returns the number of ranks that voted v.
func (r *Result) Votes(v Vote) int64 { return tensor.FromBytes[int64](r.votes())[v] }

// Times returns the times of each rank, in the period that ends with the step's all-reduce. It is nil for one rank,
// and on a device that compiles programs, where the host's time says nothing.
func (r *Result) Times() []RankTimes {
	if r.times == nil {
		return nil
	}
	return rankTimes(tensor.FromBytes[int64](r.times()), r.world)
}

// Sums returns the sums of ReserveSums; nil if there are none.
func (r *Result) Sums() []float64 {
	if r.sums == nil {
		return nil
	}
	return tensor.FromBytes[float64](r.sums())
}

// Finish waits for the reductions and returns the step's scalars (F64 [tensor.ScalarCount]) over all ranks,
// valid until the next Finish. tokens is this rank's label token count; begin (F64 [1], or nil for 1) is the
// loss scale.
func (e *Engine) Finish(tokens int64, maxNorm float64, begin *tensor.Tensor) *tensor.Tensor {
	e.step.unit = nil
	e.complete()
	e.drain(0)
	if e.step.training {
		for _, f := range e.flats {
			if !f.frozen {
				f.finish()
			}
		}
		e.sumSquares()
	}
	e.b.Upload(e.counts(), tensor.AsBytes([]int64{tokens, e.step.read[0], e.step.read[1]}))
	e.b.Upload(e.votes(), tensor.AsBytes(e.step.votes[:]))
	e.step.votes, e.step.read = [numVotes]int64{}, [2]int64{}
	if n := e.timeWords(); n > 0 {
		mine := make([]int64, n)
		if e.step.training {
			e.period.end().put(mine, e.mesh.World.Rank(), e.mesh.World.Size())
		}
		e.b.Upload(e.times(), tensor.AsBytes(mine))
	}
	e.b.Upload(e.maxNorm, tensor.AsBytes([]float64{maxNorm}))
	used := e.stats.Flat(0, e.statWords()+e.extraSums()*tensor.ExactWords)
	e.wait(e.issue(allReduce(e.mesh.World, used, collective.Sum, "step")))
	if e.sums != nil {
		e.b.ExactValues(e.sums, e.stats.Flat(e.statWords(), e.stats.Elems()))
	}
	e.b.StepScalars(e.scalars, e.squares(), e.sum(0), e.counts().Flat(0, 1), e.maxNorm, begin)
	return e.scalars
}

// sumSquares sums the squares of the gradients that this rank owns.
func (e *Engine) sumSquares() {
	if !e.static {
		defer e.trace.End(e.trace.Begin(trace.Span{Kind: trace.Optimizer, Op: "norm"}))
	}
	for _, f := range e.flats {
		if !f.frozen {
			e.b.ExactSquares(e.squares(), f.at(f.grad, f.layout.grad, f.own), nil)
		}
	}
}

// Publish casts updated masters to compute parameters and sends these to the ranks that keep them but
// did not update them. The next forward waits for them unit by unit. Without Options.Hold the next forward casts.
func (e *Engine) Publish() {
	if !e.static {
		defer e.trace.End(e.trace.Begin(trace.Span{Kind: trace.Publish}))
	}
	for _, f := range e.flats {
		if !f.frozen {
			e.publish(f)
		}
	}
}

func (e *Engine) publish(f *flat) {
	switch {
	case f.casts():
		if f.gathered() {
			e.free(f, len(e.schedule.units))
		}
		return
	case isOffloaded(f.param):
		return
	}
	mine := f.at(f.param, f.layout.param, f.optim)
	if f.master != f.param && !f.offloaded() {
		e.b.Copy(mine, f.master)
	}
	if f.optim.len() < f.layout.param.len() {
		f.update(e.issue(allGather(e.mesh.Group(Shard), f.param, mine, f.unit.Name)))
	}
}
