package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"trireme/device"
	"trireme/internal/kernel"
	"trireme/tensor"
)

// GEMMShape is a product [M K] * [K N]. With Trans the second operand is stored as [N K], like a linear
// layer's weight. DX and DW are that layer's gradients: [M N] * [N K], and the transpose of [M N] times
// [M K], accumulated.
type GEMMShape struct {
	M, K, N       int
	Trans, DX, DW bool
}

// String returns the shape's key in a report: MxKxN, with _t, _dx or _dw.
func (s GEMMShape) String() string {
	k := fmt.Sprintf("%dx%dx%d", s.M, s.K, s.N)
	switch {
	case s.DX:
		return k + "_dx"
	case s.DW:
		return k + "_dw"
	case s.Trans:
		return k + "_t"
	}
	return k
}

// PeerGEMMShapes returns the shapes of the PyTorch script.
func PeerGEMMShapes() []GEMMShape {
	s := []GEMMShape{{M: 512, K: 512, N: 512}, {M: 1024, K: 1024, N: 1024}, {M: 2048, K: 2048, N: 2048}}
	for _, d := range [][2]int{{768, 3072}, {3072, 768}, {768, 768}} {
		s = append(s, GEMMShape{M: 2048, K: d[0], N: d[1]}, GEMMShape{M: 2048, K: d[0], N: d[1], Trans: true})
	}
	return s
}

// TrainingGEMMShapes returns the products of StepConfigs: forward and both gradients of every weight
// shape.
func TrainingGEMMShapes() []GEMMShape {
	var s []GEMMShape
	for _, name := range []string{"A", "B", "C"} {
		c := StepConfigs[name]
		for _, d := range [][2]int{{c.Hidden, c.Hidden}, {c.Hidden, c.Intermediate}, {c.Intermediate, c.Hidden}, {c.Hidden, c.Vocab}} {
			g := GEMMShape{M: c.T * c.B, K: d[0], N: d[1]}
			for _, kind := range []GEMMShape{{Trans: true}, {DX: true}, {DW: true}} {
				g.Trans, g.DX, g.DW = kind.Trans, kind.DX, kind.DW
				s = append(s, g)
			}
		}
	}
	return s
}

// GEMMOptions configure GEMM.
type GEMMOptions struct {
	Threads       int                  // 0 is 1
	Time          time.Duration        // per shape; 0 is 1.5 seconds
	Shapes        []GEMMShape          // nil is PeerGEMMShapes
	Float32Matmul device.Float32Matmul // "" is Highest
	DType         tensor.DType         // F32, BF16 or F16; weight gradients are F32
}

// GEMMSpeed is the speed of a shape in GFLOP/s over N products.
type GEMMSpeed struct {
	Median float64 `json:"median"`
	Best   float64 `json:"best"`
	N      int     `json:"n"`
}

// GEMMReport has the keys of the PyTorch script, and the processor's peak.
type GEMMReport struct {
	Threads       int                  `json:"threads"`
	GFLOPS        map[string]GEMMSpeed `json:"gflops"`
	FMAPeakGFLOPS float64              `json:"fma_peak_gflops"` // best of many short runs of Peak, all threads together
	PercentOfPeak map[string]float64   `json:"percent_of_peak"` // of the medians
	DType         string               `json:"dtype"`
}

// GEMM measures matrix products on the cpu backend.
func GEMM(ctx context.Context, o GEMMOptions) (GEMMReport, error) {
	o.Threads = max(1, o.Threads)
	if o.Time == 0 {
		o.Time = 1500 * time.Millisecond
	}
	if o.Shapes == nil {
		o.Shapes = PeerGEMMShapes()
	}
	r := GEMMReport{Threads: o.Threads, GFLOPS: map[string]GEMMSpeed{}, PercentOfPeak: map[string]float64{}, DType: o.DType.String()}
	b, err := device.Open("cpu", device.Options{Threads: o.Threads, Float32Matmul: o.Float32Matmul})
	if err != nil {
		return r, fmt.Errorf("bench: gemm: %w", err)
	}
	defer b.Close()
	for _, s := range o.Shapes {
		if err := ctx.Err(); err != nil {
			return r, fmt.Errorf("bench: gemm: %w", err)
		}
		// Measure the peak repeatedly, since other processes may disturb it.
		r.FMAPeakGFLOPS = max(r.FMAPeakGFLOPS, Peak(o.Threads, o.DType))
		r.GFLOPS[s.String()] = s.measure(ctx, b, o.DType, o.Time)
	}
	r.FMAPeakGFLOPS = round1(max(r.FMAPeakGFLOPS, Peak(o.Threads, o.DType)))
	if r.FMAPeakGFLOPS > 0 {
		for k, v := range r.GFLOPS {
			r.PercentOfPeak[k] = round1(100 * v.Median / r.FMAPeakGFLOPS)
		}
	}
	return r, nil
}

func (s GEMMShape) measure(ctx context.Context, b tensor.Backend, dt tensor.DType, d time.Duration) GEMMSpeed {
	random := func(seed uint64, shape ...int) *tensor.Tensor {
		t := b.New(tensor.Activations, dt, shape...)
		b.Normal(t, tensor.RandKey{Seed: seed}, 0, 1)
		return t
	}
	x, y := random(1, s.M, s.K), random(2, s.M, s.N)
	w := random(3, s.K, s.N)
	defer x.Release()
	defer y.Release()
	defer w.Release()
	run := func() { b.MatMul(y, x, w, tensor.MatMulOp{}) }
	switch t := w.Reshape(s.N, s.K); {
	case s.DX:
		run = func() { b.MatMul(x, y, t, tensor.MatMulOp{}) }
	case s.DW:
		dw := b.New(tensor.Activations, tensor.F32, s.N, s.K)
		defer dw.Release()
		b.Fill(dw, 0)
		run = func() { b.MatMul(dw, y, x, tensor.MatMulOp{TransA: true, Accumulate: true}) }
	case s.Trans:
		run = func() { b.MatMul(y, x, t, tensor.MatMulOp{TransB: true}) }
	}
	run()
	run()
	const least = 9
	var times []float64
	for end := time.Now().Add(d); ctx.Err() == nil && (len(times) < least || time.Now().Before(end)); {
		start := time.Now()
		run()
		b.Sync()
		times = append(times, time.Since(start).Seconds())
	}
	if len(times) == 0 {
		return GEMMSpeed{}
	}
	slices.Sort(times)
	work := 2e-9 * float64(s.M) * float64(s.K) * float64(s.N)
	return GEMMSpeed{Median: round1(work / times[len(times)/2]), Best: round1(work / times[0]), N: len(times)}
}

// Peak measures, in a few milliseconds, the GFLOP/s that threads reach together in products of type dt:
// of bfloat16 by tiles or VDPBF16PS if the processor is faster by them, else float32 fused multiply-adds.
// It is the best of several runs, 0 without vector code.
func Peak(threads int, dt tensor.DType) float64 {
	work := kernel.FMAPeak
	if dt == tensor.BF16 && kernel.BF16Peak(1) > 0 {
		work = kernel.BF16Peak
	}
	return peak(threads, func() float64 { return work(2000) })
}

func peak(threads int, work func() float64) float64 {
	best := 0.0
	for range 6 {
		var wg sync.WaitGroup
		done := make([]float64, max(1, threads))
		start := time.Now()
		for i := range done {
			wg.Go(func() { done[i] = work() })
		}
		wg.Wait()
		d := time.Since(start).Seconds()
		sum := 0.0
		for _, w := range done {
			sum += w
		}
		best = max(best, 1e-9*sum/d)
	}
	return best
}

func round1(x float64) float64 { return math.Round(10*x) / 10 }
