package data

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// rankIndices is torch.utils.data.DistributedSampler: a rank's samples of one epoch, padded by
// repeating from the start, or shortened with dropLast.
func rankIndices(n, rank, ranks int, epoch int64, seed uint64, shuffle, dropLast bool) []int {
	each := (n + ranks - 1) / ranks
	if dropLast && n%ranks != 0 {
		each = (n - 1) / ranks
	}
	var perm []uint32
	if shuffle {
		perm = randperm(n, seed+uint64(epoch))
	}
	out := make([]int, each)
	for i := range out {
		k := (rank + i*ranks) % n
		if shuffle {
			k = int(perm[k])
		}
		out[i] = k
	}
	return out
}

func TestDistributedSamplerOracle(t *testing.T) {
	var oracle struct {
		Cases []struct {
			N, World int
			DropLast bool `json:"drop_last"`
			Ranks    [][]int
		}
	}
	readJSON(t, shared(t, "oracles/distributed_sampler.json"), &oracle)
	for _, c := range oracle.Cases {
		for r, want := range c.Ranks {
			if got := rankIndices(c.N, r, c.World, 0, 0, false, c.DropLast); !slices.Equal(got, want) {
				t.Errorf("n %d rank %d of %d drop_last %v: %v, want %v", c.N, r, c.World, c.DropLast, got, want)
			}
		}
	}
}

// A global batch has the samples of DistributedSampler for all ranks in that step.
func TestSamplerIsDistributedSampler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 5).Draw(t, "ranks")
		n := rapid.IntRange(ranks, 60).Draw(t, "n")
		drop := rapid.Bool().Draw(t, "drop")
		seed := rapid.Uint64Range(0, 99).Draw(t, "seed")
		s, err := NewSampler(n, ranks, seed, true, drop)
		if err != nil {
			t.Fatal(err)
		}
		for epoch := range int64(3) {
			var parts [][]int
			for r := range ranks {
				parts = append(parts, rankIndices(n, r, ranks, epoch, seed, true, drop))
			}
			if int64(len(parts[0])) != s.StepsPerEpoch() {
				t.Fatalf("%d steps an epoch, want %d", s.StepsPerEpoch(), len(parts[0]))
			}
			for i := range parts[0] {
				for r := range ranks {
					if got := s.Index(r); got != parts[r][i] {
						t.Fatalf("epoch %d step %d rank %d: row %d, want %d", epoch, i, r, got, parts[r][i])
					}
				}
				s.Advance()
			}
		}
	})
}

func TestSamplerUsesEveryRowOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.IntRange(1, 12).Draw(t, "batch")
		n := rapid.IntRange(batch, 70).Draw(t, "n")
		drop := rapid.Bool().Draw(t, "drop")
		s, err := NewSampler(n, batch, 7, rapid.Bool().Draw(t, "shuffle"), drop)
		if err != nil {
			t.Fatal(err)
		}
		for epoch := range int64(2) {
			times := make([]int, n)
			used := 0
			for s.State().Epoch == epoch {
				for i := range batch {
					times[s.Index(i)]++
					used++
				}
				s.Advance()
			}
			for row, k := range times {
				if k > 2 || drop && k > 1 || !drop && k == 0 {
					t.Fatalf("row %d used %d times", row, k)
				}
			}
			if extra := used - n; !drop && (extra < 0 || extra >= batch) || drop && (extra > 0 || extra <= -batch) {
				t.Fatalf("%d samples of %d in batches of %d", used, n, batch)
			}
		}
	})
}

func TestRestoreIsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.IntRange(1, 9).Draw(t, "batch")
		n := rapid.IntRange(batch, 40).Draw(t, "n")
		drop := rapid.Bool().Draw(t, "drop")
		steps := rapid.IntRange(0, 30).Draw(t, "steps")
		a, _ := NewSampler(n, batch, 3, true, drop)
		b, _ := NewSampler(n, batch, 3, true, drop)
		for range steps {
			a.Advance()
		}
		if err := b.Restore(a.State()); err != nil || a.State() != b.State() {
			t.Fatalf("replayed %+v, restored %+v, %v", a.State(), b.State(), err)
		}
		for i := range batch {
			if a.Index(i) != b.Index(i) {
				t.Fatal("orders differ")
			}
		}
	})
}

// After a change of the global batch, the rest of the epoch is used once.
func TestRestoreAtAnotherBatch(t *testing.T) {
	a, _ := NewSampler(30, 4, 1, true, false)
	seen := make([]int, 30)
	for range 3 {
		for i := range 4 {
			seen[a.Index(i)]++
		}
		a.Advance()
	}
	b, _ := NewSampler(30, 6, 1, true, false)
	if err := b.Restore(a.State()); err != nil {
		t.Fatal(err)
	}
	for b.State().Epoch == 0 {
		for i := range 6 {
			seen[b.Index(i)]++
		}
		b.Advance()
	}
	for row, k := range seen {
		if k != 1 {
			t.Errorf("row %d used %d times", row, k)
		}
	}
}

// With dropLast, a larger batch that does not fit the rest of the epoch continues with the next
// epoch.
func TestRestoreDropLast(t *testing.T) {
	a, _ := NewSampler(30, 4, 1, true, true)
	for range 6 { // 24 of 30 rows
		a.Advance()
	}
	for batch, want := range map[int]State{
		6: {Sample: 24, Step: 6, Samples: 24, Seed: 1, Len: 30},
		8: {Epoch: 1, Step: 6, Samples: 24, Seed: 1, Len: 30},
	} {
		b, _ := NewSampler(30, batch, 1, true, true)
		if err := b.Restore(a.State()); err != nil || b.State() != want {
			t.Errorf("batches of %d continue at %+v, %v, want %+v", batch, b.State(), err, want)
		}
	}
}

func TestSamplerErrors(t *testing.T) {
	_, err := NewSampler(3, 8, 0, false, false)
	wantError(t, err, "3 rows", "batch of 8")
	s, _ := NewSampler(10, 2, 0, true, false)
	wantError(t, s.Restore(State{Len: 11}), "10 rows", "11")
	wantError(t, s.Restore(State{Len: 10, Seed: 5}), "seed is 0", "seed 5")
	wantError(t, s.Restore(State{Len: 10, Sample: 10}), "position")
}
