package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"trireme/collective"
	"trireme/tensor"
)

// CollectivesOptions configure Collectives.
type CollectivesOptions struct {
	Seconds float64 // per measurement; 0 is 0.6
	KiB     []int   // sizes of all operations; nil: 1 to 65536 for all-reduce, 64 to 16384 for the others
}

// CollectivesReport has the keys of the PyTorch script, which measures gloo.
type CollectivesReport struct {
	World int                         `json:"world"`
	Res   map[string]CollectiveFigure `json:"res"`
}

// CollectiveFigure is a measurement on the calling rank: median and best of Iterations calls. Bus
// bandwidth follows nccl-tests: bytes/t times 2(n-1)/n for all_reduce, and (n-1)/n of the total for
// all_gather and reduce_scatter.
type CollectiveFigure struct {
	Us         float64 `json:"us"`
	UsBest     float64 `json:"us_best"`
	Busbw      float64 `json:"busbw_GBps"`
	BusbwBest  float64 `json:"busbw_best"`
	Iterations int     `json:"n"`
}

// Collectives measures the collectives of a world. Every rank calls it. Tensors are in the world's arena,
// as an engine's are.
func Collectives(ctx context.Context, world collective.World, o CollectivesOptions) (CollectivesReport, error) {
	if o.Seconds <= 0 {
		o.Seconds = 0.6
	}
	n := world.Size()
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i
	}
	g, err := world.Group("bench", ranks)
	if err != nil {
		return CollectivesReport{}, err
	}
	b := &collectives{ctx: ctx, world: world, g: g, seconds: o.Seconds, res: map[string]CollectiveFigure{}}
	b.vote = b.tensor(tensor.F64, 1)
	reduced, others := o.KiB, o.KiB
	if o.KiB == nil {
		reduced, others = []int{1, 64, 1024, 16384, 65536}, []int{64, 1024, 16384}
	}
	b.run(reduced, others)
	return CollectivesReport{World: n, Res: b.res}, b.err
}

// collectives is one measurement run. Nothing is measured after the first error.
type collectives struct {
	ctx     context.Context
	world   collective.World
	g       collective.Group
	seconds float64
	vote    *tensor.Tensor
	res     map[string]CollectiveFigure
	err     error
}

func (b *collectives) tensor(dt tensor.DType, n int) *tensor.Tensor {
	size := n * dt.Size()
	if a := b.world.Arena(); a != nil {
		return tensor.Of(tensor.NewBuffer(a.Alloc(size), size, tensor.Workspace, func(f *tensor.Buffer) { a.Free(f.Bytes) }), dt, 0, n)
	}
	return tensor.Of(tensor.NewBuffer(make([]byte, size), size, tensor.Workspace, nil), dt, 0, n)
}

func (b *collectives) run(reduced, others []int) {
	n := b.g.Size()
	double := 2 * float64(n-1) / float64(n)
	single := float64(n-1) / float64(n)
	x := b.tensor(tensor.F32, 1)
	b.measure("all_reduce_4B", 4, double, func() error { return b.g.AllReduce(b.ctx, x, collective.Sum, "bench") })
	b.measure("barrier", 0, 0, func() error { return b.g.Barrier(b.ctx, "bench") })
	for _, kib := range reduced {
		y := b.tensor(tensor.F32, kib*256)
		b.measure(fmt.Sprintf("all_reduce_%dKiB", kib), kib*1024, double, func() error { return b.g.AllReduce(b.ctx, y, collective.Sum, "bench") })
		y.Release()
	}
	for _, kib := range others {
		part := kib * 256 / n
		dst, src := b.tensor(tensor.F32, part*n), b.tensor(tensor.F32, part)
		b.measure(fmt.Sprintf("all_gather_%dKiB_total", kib), kib*1024, single, func() error { return b.g.AllGather(b.ctx, dst, src, "bench") })
		b.measure(fmt.Sprintf("reduce_scatter_%dKiB_total", kib), kib*1024, single, func() error {
			return b.g.ReduceScatter(b.ctx, src, dst, collective.ReduceOptions{Accumulate: true}, "bench")
		})
		dst.Release()
		src.Release()
	}
}

// measure times f for the configured seconds; ranks agree on the number of calls.
func (b *collectives) measure(name string, bytes int, factor float64, f func() error) {
	once := func() time.Duration {
		t := time.Now()
		if b.err == nil {
			b.err = f()
		}
		return time.Since(t)
	}
	once()
	once()
	each := (once() + once()).Seconds() / 2
	tensor.Host[float64](b.vote)[0] = each
	if b.err == nil {
		b.err = b.g.AllReduce(b.ctx, b.vote, collective.Max, "bench: how often")
	}
	each = max(tensor.Host[float64](b.vote)[0], 1e-6)
	times := make([]float64, max(7, min(3000, int(b.seconds/each))))
	for i := range times {
		times[i] = once().Seconds()
	}
	if b.err != nil {
		return
	}
	slices.Sort(times)
	best, median := times[0], times[len(times)/2]
	round := func(v float64, digits float64) float64 { return math.Round(v*digits) / digits }
	b.res[name] = CollectiveFigure{
		Us: round(median*1e6, 100), UsBest: round(best*1e6, 100),
		Busbw: round(factor*float64(bytes)/median/1e9, 1000), BusbwBest: round(factor*float64(bytes)/best/1e9, 1000),
		Iterations: len(times),
	}
}
