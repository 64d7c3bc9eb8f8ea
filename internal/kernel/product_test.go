package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"trireme/internal/impl"
)

// together computes a product on threads, each a goroutine, or one after the other on this one.
func together(p *Product, threads int, concurrent bool) {
	scratch := make([]float32, p.Scratch())
	for i := range scratch {
		scratch[i] = math.Float32frombits(gemmGuard)
	}
	var wg sync.WaitGroup
	for thread := range threads {
		if concurrent {
			wg.Go(func() { p.Run(thread, scratch) })
		} else {
			p.Run(threads-1-thread, scratch)
		}
	}
	wg.Wait()
}

// A product has the same bits on any number of threads.
func TestProductThreads(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(31, 32))
		s := gemmShapes[impl.Current()]
		sizes := [][3]int{
			{1, 40, 50}, {1, 40, 64}, {3*s.mr + 1, 2*s.nr + 5, 70}, {200, 3*s.nr + 1, s.kc + 3}, {130, 2*s.nc + 11, 33}, {40, s.nc + 1, 2*s.kc + 7},
			{sumRows + 3, s.nr + 1, 2*s.kc + 2}, {70, 70, 0}, {0, 5, 5}, {5, 0, 5},
		}
		for i := 0; i < 60; i++ {
			d, kind, parts := sizes[i%len(sizes)], r.IntN(kinds), Parts([]int{0, 0, 2, 3}[r.IntN(4)])
			m, n, k := d[0], d[1], d[2]
			gap, accumulate := 9*(kind>>6&1), kind&32 != 0
			a := newHalfMatrix(r, m, k, gap, kind&1 != 0, kind&2 != 0, kind&128 != 0)
			b := newHalfMatrix(r, k, n, gap, kind&4 != 0, kind&8 != 0, kind&256 != 0)
			c := newHalfMatrix(r, m, n, gap, false, kind&16 != 0, kind&512 != 0)
			old, want := c.clone(), c.clone()
			GemmParts(parts, want.Matrix, a.Matrix, b.Matrix, m, n, k, accumulate, make([]float32, GemmPartsScratch(parts, c.Matrix, a.Matrix, b.Matrix, m, n, k, accumulate)))
			for _, threads := range []int{1, 2, 3, 16, 61} {
				got := old.clone()
				p := NewProduct(parts, got.Matrix, a.Matrix, b.Matrix, m, n, k, accumulate, threads)
				together(p, threads, i%5 != 0)
				p.Free()
				if err := got.same(want); err != nil {
					t.Fatalf("%v, kind %#x, %d parts, %d threads: %v", d, kind, parts, threads, err)
				}
			}
		}
	})
}

// Threads do not wait for one that has failed.
func TestTasksFail(t *testing.T) {
	for _, continued := range []bool{false, true} {
		x := tasks{threads: 5, stages: 9, parts: 3, chunks: 4, buffers: 2, continued: continued, taken: make(Shares, 4*5), reached: make([]atomic.Int64, 4)}
		failed := make(chan any, 5)
		for thread := range cap(failed) {
			go func() {
				defer func() { failed <- recover() }()
				ended := false
				defer x.leave(&ended)
				for y, ok := x.take(thread); ok; y, ok = x.take(thread) {
					if y == (task{false, 5, 1}) {
						panic("failed")
					}
					x.end(y)
				}
				ended = true
			}()
		}
		n := 0
		for range cap(failed) {
			if <-failed != nil {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d threads failed, want 1", n)
		}
	}
}

// TestProductSchedule simulates the products of a step on many threads, with the multiply-adds of a task, and 8 for each packed
// element, for its time. It checks the share of all threads' time that is not idle, by shape of bench.StepConfigs.
func TestProductSchedule(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for threads, want := range map[int]float64{2: 0.99, 4: 0.975, 16: 0.95, 64: 0.9} {
			testProductSchedule(t, threads, want)
		}
	})
}

func testProductSchedule(t *testing.T, threads int, want float64) {
	for _, c := range []struct {
		name                                      string
		rows, layers, hidden, intermediate, vocab int
	}{{"A", 2048, 4, 256, 688, 512}, {"B", 2048, 6, 512, 1376, 8192}, {"C", 1024, 12, 768, 2048, 32000}} {
		t.Run(fmt.Sprint(c.name, " on ", threads), func(t *testing.T) {
			var products, work, path float64
			for _, w := range []struct{ in, out, times int }{
				{c.hidden, 3 * c.hidden, c.layers}, {c.hidden, c.hidden, c.layers}, {c.hidden, 2 * c.intermediate, c.layers},
				{c.intermediate, c.hidden, c.layers}, {c.hidden, c.vocab, 1},
			} {
				// forward, and the gradients of the input and of the weight
				for i, d := range [][3]int{{c.rows, w.out, w.in}, {c.rows, w.in, w.out}, {w.out, w.in, c.rows}} {
					p := &Product{m: d[0], n: d[1], k: d[2], threads: threads, a: Matrix{Trans: i == 2}, b: Matrix{Trans: i == 0}}
					p.plan()
					all, longest := simulate(p)
					if share := all / float64(threads) / longest; share < 0.5 {
						t.Errorf("%v: threads are busy for %.2f of the time", d, share)
					}
					products += float64(w.times * d[0] * d[1] * d[2])
					work, path = work+float64(w.times)*all, path+float64(w.times)*longest
				}
			}
			share, want := work/float64(threads)/path, want
			if c.name == "A" { // its small matrices have few tiles
				if want -= 0.012; threads == 64 {
					want = 0.84
				}
			}
			t.Logf("threads are busy for %.3f of the time of products, and multiply for %.3f", share, products/float64(threads)/path)
			if share < want {
				t.Errorf("threads are busy for %.3f of the time of products, want %v", share, want)
			}
		})
	}
}

// TestFewRows simulates products of few rows for their threads, but not those that FewRows gives to each thread alone.
func TestFewRows(t *testing.T) {
	for _, tiles := range []bool{false, true} {
		for threads, want := range map[int]float64{2: 0.95, 16: 0.65, 64: 0.3} {
			for _, m := range []int{57, 64, 96, 128, 200, 256, 512, 1000} {
				for _, d := range [][2]int{{4096, 4096}, {11008, 4096}, {4096, 11008}, {896, 4864}, {768, 3072}, {2304, 768}, {32000, 768}} {
					p := &Product{m: m, n: d[0], k: d[1], threads: threads, b: Matrix{Trans: true}, byTiles: tiles}
					tile := gemmShapes[impl.Current()].mr
					if tiles {
						tile = tileRows
					}
					if fewRows(m, tile, threads) {
						continue
					}
					p.plan()
					all, longest := simulate(p)
					if share := all / float64(threads) / longest; share < want {
						t.Errorf("%d x %v on %d threads, tiles %v: threads are busy for %.2f of the time", m, d, threads, tiles, share)
					}
				}
			}
		}
	}
}

// simulate returns the time of all tasks, and that of the thread that ends last.
func simulate(p *Product) (all, longest float64) {
	var g grid
	panel, x := tileRows, &p.tasks
	if p.byTiles {
		g = p.tiled().grid
	} else {
		of := p.gemm()
		g, panel = of.grid, of.nr
	}
	free := make([]float64, p.threads)
	packed, done := make([]float64, x.stages), make([]float64, x.stages)
	reached := make([]float64, x.chunks)
	for stage := range x.stages {
		i0, i1, j0, j1, _, kb := g.block(stage)
		next := func() int { return slices.Index(free, slices.Min(free)) }
		run := func(thread int, after, cost float64) float64 {
			free[thread] = max(free[thread], after) + cost
			all += cost
			return free[thread]
		}
		for part := range x.parts {
			lo, hi := g.share(j1-j0, part, panel)
			after := 0.0
			if stage >= x.buffers {
				after = done[stage-x.buffers]
			}
			packed[stage] = max(packed[stage], run(next(), after, float64(8*(hi-lo)*kb)))
		}
		for range x.chunks {
			thread := next()
			chunk := x.chunk(stage, thread)
			first, end := g.chunkRows(chunk, i0, i1)
			after := packed[stage]
			if x.continued {
				after = max(after, reached[chunk])
			}
			reached[chunk] = run(thread, after, float64(max(0, end-first)*kb*(j1-j0+8)))
			done[stage] = max(done[stage], reached[chunk])
		}
	}
	return all, slices.Max(free)
}
