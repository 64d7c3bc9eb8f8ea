package cpu

import (
	"fmt"
	"slices"
	"testing"
)

// TestSchedule simulates the products of a step on many threads, which take tiles one by one as pool.run does, with the
// multiply-adds of a tile for its time. It checks the share of all threads' time that is not idle, by shape of
// bench.StepConfigs.
func TestSchedule(t *testing.T) {
	oneGoroutine(t)
	for _, c := range []struct {
		name                                      string
		rows, layers, hidden, intermediate, vocab int
	}{{"B", 2048, 6, 512, 1376, 8192}, {"C", 1024, 12, 768, 2048, 32000}} {
		for threads, want := range map[int]float64{2: 0.95, 16: 0.75, 64: 0.75} {
			t.Run(fmt.Sprint(c.name, " on ", threads), func(t *testing.T) {
				var work, path int
				for _, w := range []struct{ in, out, times int }{
					{c.hidden, 3 * c.hidden, c.layers}, {c.hidden, c.hidden, c.layers}, {c.hidden, 2 * c.intermediate, c.layers},
					{c.intermediate, c.hidden, c.layers}, {c.hidden, c.vocab, 1},
				} {
					// forward, and the gradients of the input and of the weight
					for _, p := range []product{{m: c.rows, n: w.out, k: w.in}, {m: c.rows, n: w.in, k: w.out}, {m: w.out, n: w.in, k: c.rows}} {
						p.batch = 1
						p.split(threads)
						all, longest := simulate(p, threads)
						if share := float64(all) / float64(threads*longest); share < 0.5 {
							t.Errorf("%d x %d x %d in tiles of %d x %d keeps threads busy for %.2f of the time", p.m, p.n, p.k, p.rows, p.cols, share)
						}
						work, path = work+w.times*all, path+w.times*longest
					}
				}
				share := float64(work) / float64(threads*path)
				t.Logf("threads are busy for %.3f of the time of products", share)
				if share < want {
					t.Errorf("threads are busy for %.3f of the time of products, want %v", share, want)
				}
			})
		}
	}
}

// simulate returns the multiply-adds of a product and those of the thread that ends last.
func simulate(p product, threads int) (all, longest int) {
	down, _ := p.grid()
	busy := make([]int, threads)
	for tile := range p.tiles() {
		i, j := tile%down*p.rows, tile/down*p.cols
		cost := min(p.rows, p.m-i) * min(p.cols, p.n-j) * p.k
		next := slices.Index(busy, slices.Min(busy))
		busy[next] += cost
		all += cost
	}
	return all, slices.Max(busy)
}
