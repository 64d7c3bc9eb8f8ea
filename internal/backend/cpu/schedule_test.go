package cpu

import (
	"fmt"
	"testing"

	"trireme/internal/impl"
	"trireme/internal/kernel"
	"trireme/tensor"
)

// TestSchedule simulates the products of a step on many threads, which take tiles one by one as pool.run does, with the
// multiply-adds of a tile for its time. It checks the share of all threads' time that is not idle, by shape of
// bench.StepConfigs, with the tiles of each instruction set.
func TestSchedule(t *testing.T) {
	oneGoroutine(t)
	impl.Each(t, func(t *testing.T) {
		for threads, want := range map[int]float64{2: 0.99, 4: 0.98, 16: 0.95, 64: 0.9} {
			testSchedule(t, threads, want)
		}
	})
}

func testSchedule(t *testing.T, threads int, want float64) {
	for _, c := range []struct {
		name                                      string
		rows, layers, hidden, intermediate, vocab int
	}{{"A", 2048, 4, 256, 688, 512}, {"B", 2048, 6, 512, 1376, 8192}, {"C", 1024, 12, 768, 2048, 32000}} {
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
			share, want := float64(work)/float64(threads*path), want
			if _, width, _ := kernel.GemmUnits(0, kernel.Matrix{}, kernel.Matrix{}); width > 16 && c.name == "A" {
				want -= 0.005 // its small matrices have few of the widest tiles
			}
			t.Logf("threads are busy for %.3f of the time of products", share)
			if share < want {
				t.Errorf("threads are busy for %.3f of the time of products, want %v", share, want)
			}
		})
	}
}

// simulate returns the multiply-adds of a product and those of the thread that ends last.
func simulate(p product, threads int) (all, longest int) {
	down, _ := p.grid()
	return p.m * p.n * p.k, int(busiest(p.tiles(), threads, func(tile int) float64 {
		i, j := tile%down*p.rows, tile/down*p.cols
		return float64(min(p.rows, p.m-i) * min(p.cols, p.n-j) * p.k)
	}))
}

// TestAttentionSchedule: the same for the backward pass of attention, in time of the least products that are needed.
func TestAttentionSchedule(t *testing.T) {
	for _, c := range []struct {
		name             string
		length, n, heads int
		threads          int
		want             float64
	}{
		{"C", 512, 2, 12, 2, 1}, {"C", 512, 2, 12, 16, 0.7}, {"C", 512, 2, 12, 64, 0.5}, {"B", 512, 4, 8, 16, 1}, {"8 heads of 4096", 4096, 1, 8, 16, 0.65},
		{"8 heads of 4096", 4096, 1, 8, 64, 0.6}, {"2 heads of 8192", 8192, 1, 2, 64, 0.6}, {"2 heads of 8192", 8192, 1, 2, 3, 0.6},
	} {
		a := attentionCall{p: tensor.AttentionParams{KVHeads: c.heads, Causal: true}}
		for range c.n {
			a.seqs = append(a.seqs, attentionSeq{n: c.length})
			a.squares += a.seqs[0].square()
		}
		least := 0.0
		for i := range a.seqs {
			least += allProducts * float64(c.heads) * a.pairs(&a.seqs[i], 0, c.length)
		}
		n, task := a.backwardTasks(c.threads)
		covers(t, &a, n, task)
		share := least / float64(c.threads) / busiest(n, c.threads, func(i int) float64 { return task(i).cost })
		t.Logf("%s, %d threads: %d tasks, %.2f", c.name, c.threads, n, share)
		if share < c.want {
			t.Errorf("%s, %d threads: %.2f, want %v", c.name, c.threads, share, c.want)
		}
	}
}

// covers checks that tasks compute each gradient of a call once.
func covers(t *testing.T, a *attentionCall, n int, task func(i int) backwardTask) {
	t.Helper()
	type row struct {
		seq  *attentionSeq
		head int
		keys bool
		i    int
	}
	seen := map[row]int{}
	for i := range n {
		x := task(i)
		for i := x.part.Q0; i < x.part.Q1; i++ {
			seen[row{x.seq, x.head, false, i}]++
		}
		for i := x.part.K0; i < x.part.K1; i++ {
			seen[row{x.seq, x.head, true, i}]++
		}
	}
	want := 0
	for i := range a.seqs {
		want += 2 * a.p.KVHeads * a.seqs[i].n
	}
	for r, n := range seen {
		if n != 1 {
			t.Fatalf("gradient %+v is computed %d times", r, n)
		}
	}
	if len(seen) != want {
		t.Errorf("%d of %d gradients are computed", len(seen), want)
	}
}
