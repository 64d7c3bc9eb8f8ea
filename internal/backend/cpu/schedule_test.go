package cpu

import (
	"testing"

	"trireme/tensor"
)

// TestAttentionSchedule simulates the backward pass of attention on many threads, and checks the share of all threads' time that
// the least products that are needed would take.
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
