package data

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func next(t testing.TB, l *Loader) *Batch {
	t.Helper()
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The global micro-batches are the same for any number of ranks.
func TestLoaderOrder(t *testing.T) {
	set := numbered{n: 53, length: 4}
	rapid.Check(t, func(t *rapid.T) {
		micro := rapid.IntRange(1, 3).Draw(t, "micro")
		groups := rapid.SampledFrom([]int{1, 2, 4, 6, 12}).Draw(t, "groups")
		shuffle := rapid.Bool().Draw(t, "shuffle")
		order := func(ranks int) (rows [][]int32, samples []int64) {
			var ls []*Loader
			for r := range ranks {
				l, err := NewLoader(set, LoaderConfig{MicroBatchSize: micro, Accumulation: groups / ranks, Rank: r, Ranks: ranks, Seed: 5, Shuffle: shuffle})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				ls = append(ls, l)
			}
			for range 12 {
				var bs []*Batch
				for _, l := range ls {
					b, err := l.Next(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					bs = append(bs, b)
				}
				for a := range groups / ranks {
					for _, b := range bs {
						rows = append(rows, slices.Clone(b.Micro[a].InputIDs))
						samples = append(samples, b.Micro[a].SampleKeys[0])
					}
				}
			}
			return rows, samples
		}
		want, ids := order(1)
		for i, id := range ids {
			if id != int64(i*micro) {
				t.Fatalf("sample %d, want %d", id, i*micro)
			}
		}
		for _, ranks := range []int{2, 3, 4} {
			if groups%ranks != 0 {
				continue
			}
			got, gotIDs := order(ranks)
			if !slices.EqualFunc(got, want, slices.Equal) || !slices.Equal(gotIDs, ids) {
				t.Fatalf("%d ranks: different order", ranks)
			}
		}
	})
}

func TestLoaderSeekAndRestore(t *testing.T) {
	set := numbered{n: 20, length: 3}
	cfg := LoaderConfig{MicroBatchSize: 3, Accumulation: 2, Seed: 9, Shuffle: true}
	l, err := NewLoader(set, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all [][]int32
	var states []State
	for range 10 {
		all = append(all, slices.Clone(next(t, l).Micro[1].InputIDs))
		states = append(states, l.State())
	}
	for step := range 9 {
		blob, err := json.Marshal(states[step])
		if err != nil {
			t.Fatal(err)
		}
		var at State
		if err := json.Unmarshal(blob, &at); err != nil {
			t.Fatal(err)
		}
		if err := l.Restore(at); err != nil {
			t.Fatal(err)
		}
		if got := next(t, l).Micro[1].InputIDs; !slices.Equal(got, all[step+1]) {
			t.Errorf("restored after step %d: %v, want %v", step, got, all[step+1])
		}
	}
}

// TestLoaderAfterFailedRestore: after an invalid position the loader continues unchanged, despite
// prefetched batches.
func TestLoaderAfterFailedRestore(t *testing.T) {
	cfg := LoaderConfig{MicroBatchSize: 3, Seed: 9, Shuffle: true}
	order := func(refused bool) (all [][]int32) {
		l, err := NewLoader(numbered{n: 40, length: 3}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for step := range 6 {
			all = append(all, slices.Clone(next(t, l).Micro[0].InputIDs))
			if step == 1 && refused {
				wantError(t, l.Restore(State{Len: 41}), "41")
			}
		}
		return all
	}
	if got, want := order(true), order(false); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMicroBatchTargets(t *testing.T) {
	path := write(t, "a.jsonl", `{"input_ids": [5, 6, 7]}
{"input_ids": [8, 9], "labels": [8, -100]}
{"input_ids": [0, 3, 4], "attention_mask": [0, 1, 1]}
`)
	rows, err := openRows(t, path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLoader(rows, LoaderConfig{MicroBatchSize: 3, SequenceLength: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := next(t, l).Micro[0]
	const x = Ignored
	for _, c := range []struct {
		name      string
		got, want []int32
	}{
		{"ids", m.InputIDs, []int32{5, 6, 7, 8, 9, 3, 4}},
		{"targets", m.Targets, []int32{6, 7, x, x, x, 4, x}},
		{"docs", m.Docs, []int32{0, 0, 0, 0, 0, 0, 0}},
		{"positions", m.Positions, []int32{0, 1, 2, 0, 1, 0, 1}},
		{"starts", m.Starts, []int32{0, 3, 5, 7}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
	if m.LabelCount != 3 {
		t.Errorf("counted %d, want 3", m.LabelCount)
	}
}

func TestLoaderErrors(t *testing.T) {
	set := numbered{n: 10, length: 4}
	for _, c := range []struct {
		cfg  LoaderConfig
		want []string
	}{
		{LoaderConfig{MicroBatchSize: 4, Ranks: 3}, []string{"10 rows", "batch of 12", "micro_batch_size 4 x accumulation 1 x ranks 3", "training.micro_batch_size=3 training.gradient_accumulation_steps=1"}},
		{LoaderConfig{MicroBatchSize: 2, Accumulation: 4, Ranks: 2}, []string{"10 rows", "batch of 16", "training.gradient_accumulation_steps=2", "data.packing=true"}},
		{LoaderConfig{Ranks: 12}, []string{"10 rows", "ranks=10"}},
		{LoaderConfig{Rank: 2, Ranks: 2}, []string{"rank 2 of 2"}},
		{LoaderConfig{SequenceLength: 3}, []string{"rows of 4 tokens", "sequence_length 3"}},
		{LoaderConfig{Vocab: 14}, []string{"row", "id 14", "vocabulary of 14"}},
	} {
		_, err := NewLoader(set, c.cfg)
		wantError(t, err, c.want...)
	}
	_, err := NewLoader(numbered{n: 0, length: 4}, LoaderConfig{})
	wantError(t, err, "no rows")
}

// failing returns an error at one row.
type failing struct {
	numbered
	at  int
	err error
}

func (d failing) Row(i int, r *Row) error {
	if i == d.at {
		return d.err
	}
	return d.numbered.Row(i, r)
}

func TestLoaderDatasetError(t *testing.T) {
	cause := errors.New("disk gone")
	l, err := NewLoader(failing{numbered{n: 10, length: 4}, 6, cause}, LoaderConfig{MicroBatchSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		next(t, l)
	}
	for range 2 {
		_, err := l.Next(t.Context())
		wantError(t, err, "row 6", "disk gone")
		if !errors.Is(err, cause) {
			t.Error("the cause is not wrapped")
		}
	}
}

func TestNextCanceled(t *testing.T) {
	block := make(chan struct{})
	l, err := NewLoader(blocking{numbered{n: 4, length: 2}, block}, LoaderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(block)
	next(t, l)
}

type blocking struct {
	numbered
	until chan struct{}
}

func (d blocking) Row(i int, r *Row) error {
	<-d.until
	return d.numbered.Row(i, r)
}

func TestEvalBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		cfg := LoaderConfig{MicroBatchSize: rapid.IntRange(1, 5).Draw(t, "micro"), Ranks: ranks}
		var counted int64
		times := make([]int, n)
		batches := make([]int, ranks)
		for r := range ranks {
			cfg.Rank = r
			for m, err := range EvalBatches(numbered{n: n, length: 3}, cfg) {
				if err != nil {
					t.Fatal(err)
				}
				batches[r]++
				counted += m.LabelCount
				for _, first := range m.Starts[:m.Rows()] {
					if m.Targets[first] >= 0 {
						times[m.InputIDs[first]]++
					}
				}
			}
		}
		if counted != int64(2*n) || slices.Min(batches) != slices.Max(batches) {
			t.Fatalf("%d counted, batches %v", counted, batches)
		}
		for i, k := range times {
			if k != 1 {
				t.Fatalf("row %d counted %d times", i, k)
			}
		}
	})
}

func TestSplit(t *testing.T) {
	train, eval := Split(numbered{n: 103, length: 3}, 0.1)
	seen := map[int32]bool{}
	for _, d := range []Dataset{train, eval} {
		var r Row
		for i := range d.Len() {
			if err := d.Row(i, &r); err != nil || seen[r.InputIDs[0]] {
				t.Fatalf("row %d twice, or %v", r.InputIDs[0], err)
			}
			seen[r.InputIDs[0]] = true
		}
	}
	if len(seen) != 103 || eval.Len() != 10 {
		t.Errorf("%d rows, %d for evaluation", len(seen), eval.Len())
	}
}
