package data

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// uneven is a dataset whose row i has length[i] tokens i.
type uneven struct{ length []int }

func (d uneven) Len() int           { return len(d.length) }
func (d uneven) Info() Info         { return Info{Length: slices.Max(d.length), MaxID: int32(len(d.length))} }
func (d uneven) Where(i int) string { return fmt.Sprint("row ", i) }
func (d uneven) Close() error       { return nil }
func (d uneven) Tokens(i int) int   { return d.length[i] }
func (d uneven) Row(i int, r *Row) error {
	r.InputIDs, r.Labels = slices.Repeat([]int32{int32(i)}, d.length[i]), slices.Repeat([]int32{int32(i)}, d.length[i])
	return nil
}

func (c LoaderConfig) divided(t testing.TB, lengths []int) [][]int32 {
	t.Helper()
	if err := c.fill(uneven{lengths}); err != nil {
		t.Fatal(err)
	}
	d := newBalancer(&c)
	if len(d.rows) != len(lengths) {
		t.Fatalf("a global batch of %d rows, not %d", len(d.rows), len(lengths))
	}
	return d.balance(func(i int) int { return lengths[i] })
}

// Each row is in one micro-batch within the limits; cost is descending.
func TestBalance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(2, 30), 1, 60).Draw(rt, "lengths")
		if rapid.Bool().Draw(rt, "same") {
			lengths = slices.Repeat(lengths[:1], len(lengths))
		}
		c := LoaderConfig{RowCost: func(n int) float64 { return float64(n * (n + 50)) }}
		if rapid.Bool().Draw(rt, "tokens") {
			c.MicroBatchTokens, c.GlobalBatch = rapid.IntRange(30, 200).Draw(rt, "most"), len(lengths)
		} else {
			c.MicroBatchSize = rapid.SampledFrom([]int{1, 2, 3}).Draw(rt, "rows")
			lengths = append(lengths, lengths...)
			lengths = append(lengths, lengths[:len(lengths)/2]...)
			lengths = append(lengths, lengths...) // 6 divides them
			c.Accumulation = len(lengths) / c.MicroBatchSize
		}
		seen, before := make([]int, len(lengths)), 0.0
		for m, rows := range c.divided(t, lengths) {
			tokens, work := 0, 0.0
			for _, r := range rows {
				seen[r]++
				tokens, work = tokens+lengths[r], work+c.RowCost(lengths[r])
			}
			switch {
			case !slices.IsSorted(rows):
				rt.Fatalf("rows %v are out of order", rows)
			case c.MicroBatchTokens > 0 && tokens > c.MicroBatchTokens:
				rt.Fatalf("%d tokens in a micro-batch of %d", tokens, c.MicroBatchTokens)
			case c.MicroBatchTokens == 0 && len(rows) != c.MicroBatchSize:
				rt.Fatalf("%d rows in a micro-batch of %d", len(rows), c.MicroBatchSize)
			case m > 0 && work > before && slices.Min(lengths) != slices.Max(lengths):
				rt.Fatalf("micro-batch %d costs more than the one before", m)
			}
			before = work
		}
		if slices.Min(seen) != 1 || slices.Max(seen) != 1 {
			rt.Fatalf("rows are used %v times", seen)
		}
	})
}

// Rows of equal length stay in order.
func TestBalanceEqualRows(t *testing.T) {
	lengths := slices.Repeat([]int{20}, 12)
	want := [][]int32{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}
	for _, c := range []LoaderConfig{
		{MicroBatchSize: 3, Accumulation: 2, Ranks: 2}, {MicroBatchTokens: 60, GlobalBatch: 12}, {MicroBatchTokens: 79, GlobalBatch: 12, Ranks: 2},
	} {
		if got := c.divided(t, lengths); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if got := (LoaderConfig{MicroBatchTokens: 40, GlobalBatch: 7}).divided(t, slices.Repeat([]int{20}, 7)); len(got) != 7 {
		t.Errorf("7 rows, 2 per micro-batch: %d micro-batches", len(got)) // 4 does not divide 7
	}
}

// Costs are even: for chat-like lengths, ranks idle little.
func TestBalanceCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lengths := make([]int, 64)
	for i := range lengths {
		lengths[i] = 20 + int(90*rng.ExpFloat64())
	}
	work := func(n int) float64 { return float64(n) * float64(n+2000) }
	for _, c := range []LoaderConfig{{MicroBatchSize: 4, Accumulation: 4, Ranks: 4}, {MicroBatchTokens: 1024, GlobalBatch: 64, Ranks: 4}} {
		c.RowCost = work
		parts := c.divided(t, lengths)
		most, all := 0.0, 0.0
		for a := 0; a < len(parts); a += 4 {
			heaviest := 0.0
			for _, rows := range parts[a:min(a+4, len(parts))] {
				sum := 0.0
				for _, r := range rows {
					sum += work(lengths[r])
				}
				heaviest, all = max(heaviest, sum), all+sum
			}
			most += heaviest // all wait for it
		}
		if idle := 1 - all/4/most; idle > 0.05 {
			t.Errorf("%d tokens, %d rows: 4 ranks idle for %.0f%% of the time", c.MicroBatchTokens, c.MicroBatchSize, 100*idle)
		}
	}
}

// With micro_batch_tokens, the global micro-batches are the same for any number of ranks, a rank
// without one gets an empty row, and a stored position continues with another number of ranks.
func TestMicroBatchTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	lengths := make([]int, 50)
	for i := range lengths {
		lengths[i] = 2 + rng.IntN(30)
	}
	set := uneven{lengths}
	global := func(ranks int, from State, steps int) (micros [][]string, at State) {
		var ls []*Loader
		for r := range ranks {
			l, err := NewLoader(set, LoaderConfig{MicroBatchTokens: 70, GlobalBatch: 12, Rank: r, Ranks: ranks, Seed: 5, Shuffle: true})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if from != (State{}) {
				if err := l.Restore(from); err != nil {
					t.Fatal(err)
				}
			}
			ls = append(ls, l)
		}
		for range steps {
			var step []string
			var bs []*Batch
			for _, l := range ls {
				b, err := l.Next(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				bs = append(bs, b)
				at = l.State()
			}
			read, rows := int64(0), int64(0)
			for _, b := range bs {
				read += b.Tokens
			}
			for a := range bs[0].Micro {
				for _, b := range bs {
					m := b.Micro[a]
					if len(m.InputIDs) > 70 {
						t.Fatalf("%d tokens", len(m.InputIDs))
					}
					if m.LabelCount == 0 {
						if len(m.InputIDs) != 1 || m.Targets[0] != Ignored {
							t.Fatalf("an empty micro-batch has %v with targets %v", m.InputIDs, m.Targets)
						}
						continue
					}
					rows += int64(len(m.InputIDs))
					step = append(step, fmt.Sprint(m.SampleKeys, m.Starts, m.InputIDs, m.TokenKeys))
				}
			}
			if read != rows {
				t.Errorf("%d ranks: read %d tokens of %d", ranks, read, rows)
			}
			micros = append(micros, step)
		}
		return micros, at
	}
	want, _ := global(1, State{}, 9)
	for _, ranks := range []int{2, 3, 4} {
		if got, _ := global(ranks, State{}, 9); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%d ranks have different micro-batches", ranks)
		}
	}
	_, at := global(2, State{}, 4)
	if got, _ := global(3, at, 5); !slices.EqualFunc(got, want[4:], slices.Equal) {
		t.Error("different micro-batches after a restart")
	}
	if _, err := NewLoader(set, LoaderConfig{MicroBatchTokens: 20, GlobalBatch: 12}); err == nil {
		t.Error("rows longer than a micro-batch are accepted")
	}
	if _, err := NewLoader(set, LoaderConfig{MicroBatchTokens: 70, GlobalBatch: 51}); err == nil {
		t.Error("a global batch larger than the dataset is accepted")
	}
}

// TestEvalBatchesByTokens: micro-batches have every row once, in order, and no room for the next.
func TestEvalBatchesByTokens(t *testing.T) {
	for _, lengths := range [][]int{{4, 4, 4, 4, 4}, {3, 5, 8, 1, 1, 6, 7, 2, 2, 2, 2}, {8}} {
		for ranks := 1; ranks <= 3; ranks++ {
			parts := make([][][]int32, ranks) // rows of each micro-batch
			for r := range ranks {
				for m, err := range EvalBatches(uneven{lengths}, LoaderConfig{MicroBatchTokens: 8, GlobalBatch: 4, Rank: r, Ranks: ranks}) {
					if err != nil {
						t.Fatal(err)
					}
					var rows []int32
					for i := range m.Rows() {
						if m.LabelCount > 0 {
							rows = append(rows, m.InputIDs[m.Starts[i]])
						}
					}
					parts[r] = append(parts[r], rows)
				}
			}
			next := 0
			for a := range parts[0] {
				for r := range ranks {
					tokens := 0
					for _, row := range parts[r][a] {
						if int(row) != next {
							t.Fatalf("%v on %d: row %d comes after %d", lengths, ranks, row, next-1)
						}
						tokens += lengths[next]
						next++
					}
					if tokens > 8 || next < len(lengths) && tokens+lengths[next] <= 8 {
						t.Errorf("%v on %d: %d tokens before row %d", lengths, ranks, tokens, next)
					}
				}
			}
			if next != len(lengths) {
				t.Errorf("%v on %d: %d rows", lengths, ranks, next)
			}
		}
	}
}
