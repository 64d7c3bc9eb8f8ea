package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"trireme/device"
	"trireme/tensor"
)

// AttentionOptions configure Attention.
type AttentionOptions struct {
	Threads int           // 0 is 1
	DType   tensor.DType  // F32, BF16 or F16
	HeadDim int           // 0 is 64
	Lengths []int         // of the row; nil is 1024, 8192 and 32768
	Rounds  int           // 0 is 5
	Time    time.Duration // least time per measurement; 0 is 0.2 seconds
}

// AttentionReport has a speed per length.
type AttentionReport struct {
	Threads int              `json:"threads"`
	DType   string           `json:"dtype"`
	HeadDim int              `json:"head_dim"`
	Lengths []AttentionSpeed `json:"lengths"`
}

// AttentionSpeed is the speed of one head with a causal mask over one row of Length positions. Work
// is counted exactly: a query and a key that it sees are 4*HeadDim FLOPs forward and 10*HeadDim
// backward.
type AttentionSpeed struct {
	Length   int             `json:"length"`
	Forward  AttentionFigure `json:"forward"`
	Backward AttentionFigure `json:"backward"`
}

// AttentionFigure is a speed in GFLOP/s, and its ratio to that of the first length: the median over
// rounds of this measurement divided by the mean of those of the first length just before and after
// it, so that other load, which is there for all three, cancels.
type AttentionFigure struct {
	Median float64 `json:"median"`
	Best   float64 `json:"best"`
	Ratio  float64 `json:"ratio"`
}

// Attention measures attention on the cpu backend at several lengths in turn.
func Attention(ctx context.Context, o AttentionOptions) (AttentionReport, error) {
	o.Threads = max(1, o.Threads)
	if o.HeadDim == 0 {
		o.HeadDim = 64
	}
	if o.Lengths == nil {
		o.Lengths = []int{1024, 8192, 32768}
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Time == 0 {
		o.Time = 200 * time.Millisecond
	}
	r := AttentionReport{Threads: o.Threads, DType: o.DType.String(), HeadDim: o.HeadDim}
	b, err := device.Open("cpu", device.Options{Threads: o.Threads})
	if err != nil {
		return r, fmt.Errorf("bench: attention: %w", err)
	}
	defer b.Close()
	heads := make([]attentionHead, len(o.Lengths))
	for i, n := range o.Lengths {
		heads[i] = newAttentionHead(b, o.DType, n, o.HeadDim)
		r.Lengths = append(r.Lengths, AttentionSpeed{Length: n})
	}
	for pass := range 2 {
		speeds, ratios := make([][]float64, len(heads)), make([][]float64, len(heads))
		for range o.Rounds {
			before := heads[0].measure(pass, o.Time)
			for i := range heads {
				if ctx.Err() != nil {
					return r, fmt.Errorf("bench: attention: %w", context.Cause(ctx))
				}
				speed := heads[i].measure(pass, o.Time)
				after := heads[0].measure(pass, o.Time)
				speeds[i], ratios[i] = append(speeds[i], speed), append(ratios[i], 2*speed/(before+after))
				before = after
			}
		}
		for i := range heads {
			f := AttentionFigure{Median: round1(Median(speeds[i])), Best: round1(slices.Max(speeds[i])), Ratio: math.Round(1000*Median(ratios[i])) / 1000}
			if pass == 0 {
				r.Lengths[i].Forward = f
			} else {
				r.Lengths[i].Backward = f
			}
		}
	}
	return r, nil
}

// attentionHead is one head over one row, with the FLOPs of forward and backward.
type attentionHead struct {
	run  [2]func()
	work [2]float64
}

func newAttentionHead(b tensor.Backend, dt tensor.DType, length, e int) (h attentionHead) {
	random := func(seed uint64) *tensor.Tensor {
		t := b.New(tensor.Activations, dt, length, e)
		b.Normal(t, tensor.RandKey{Seed: seed}, 0, 1)
		return t
	}
	q, k, v, do, o := random(1), random(2), random(3), random(4), random(5)
	dq, dk, dv, lse := random(6), random(7), random(8), b.New(tensor.Activations, tensor.F32, 1, length)
	starts := b.New(tensor.Workspace, tensor.I32, 2)
	b.Upload(starts, tensor.AsBytes([]int32{0, int32(length)}))
	p := tensor.AttentionParams{Heads: 1, KVHeads: 1, E: e, Scale: 1 / math.Sqrt(float64(e)), Causal: true, Starts: starts, MaxSeqLen: length, SeqLen: length}
	h.run[0] = func() { b.Attention(o, lse, q, k, v, nil, p) }
	h.run[1] = func() { b.AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, nil, p) }
	seen := float64(length) * float64(length+1) / 2
	h.work = [2]float64{4 * float64(e) * seen, 10 * float64(e) * seen}
	h.run[0]() // backward reads its results
	return h
}

// measure returns GFLOP/s over calls of at least d together.
func (h *attentionHead) measure(pass int, d time.Duration) float64 {
	n, start := 0, time.Now()
	for n == 0 || time.Since(start) < d {
		h.run[pass]()
		n++
	}
	return 1e-9 * h.work[pass] * float64(n) / time.Since(start).Seconds()
}
