package data

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func maskedSets(t testing.TB, lines ...string) *Sets {
	t.Helper()
	words := make([]string, 200)
	for i := range words {
		words[i] = fmt.Sprintf("w%d", i)
	}
	cfg := rowsConfig(t, lines...)
	cfg.Packing = new(false)
	s, err := Open(t.Context(), cfg, ModelInfo{Task: MaskedLM}, wordTokenizer(t, words...), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func manyWords(rows, words int) (lines []string) {
	for i := range rows {
		var b strings.Builder
		for k := range words {
			fmt.Fprintf(&b, "w%d ", (7*i+k)%200)
		}
		lines = append(lines, fmt.Sprintf(`{"text": %q}`, b.String()))
	}
	return lines
}

// Selected tokens have BERT's proportions, special tokens and padding are not selected, and targets
// are the original tokens.
func TestMaskingParts(t *testing.T) {
	s := maskedSets(t, manyWords(300, 100)...)
	var all, chosen, masked, kept, other int
	var r Row
	for m, err := range EvalBatches(s.Train, LoaderConfig{SequenceLength: 110, Task: MaskedLM, Masking: s.Masking, Seed: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Train.Row(int(m.SampleKeys[0]), &r); err != nil {
			t.Fatal(err)
		}
		for k, target := range m.Targets {
			switch {
			case k == 0 || k >= 101:
				if target != Ignored || k < 102 && m.InputIDs[k] != r.InputIDs[k] {
					t.Fatalf("position %d is selected", k)
				}
				continue
			case target == Ignored:
				if m.InputIDs[k] != r.InputIDs[k] {
					t.Fatalf("position %d has changed", k)
				}
			case target != r.InputIDs[k]:
				t.Fatalf("target %d of token %d", target, r.InputIDs[k])
			case m.InputIDs[k] == s.Masking.mask:
				masked++
			case m.InputIDs[k] == target:
				kept++
			default:
				other++
			}
			all++
		}
	}
	chosen = masked + kept + other
	near := func(what string, n, of int, want float64) {
		if d := math.Abs(float64(n) - want*float64(of)); d > 4*math.Sqrt(float64(of)*want*(1-want)) {
			t.Errorf("%s: %d of %d, want %v", what, n, of, want)
		}
	}
	near("chosen", chosen, all, 0.15)
	near("masked", masked, chosen, 0.8)
	near("kept", kept, chosen, 0.1+0.1/205)
	near("other", other, chosen, 0.1-0.1/205)
}

// Masking does not depend on the number of ranks, and differs between epochs.
func TestMaskingRanks(t *testing.T) {
	s := maskedSets(t, manyWords(16, 40)...)
	global := func(ranks int) (out []string) {
		steps := make([][]string, 4)
		for rank := range ranks {
			l, err := NewLoader(s.Train, LoaderConfig{
				MicroBatchSize: 2, Accumulation: 4 / ranks, Rank: rank, Ranks: ranks, Shuffle: true,
				Seed: 5, Task: MaskedLM, Masking: s.Masking,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for step := range steps {
				b, err := l.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range b.Micro {
					steps[step] = append(steps[step], fmt.Sprint(m.SampleKeys, m.InputIDs, m.Targets))
				}
			}
		}
		for _, step := range steps {
			slices.Sort(step)
			out = append(out, step...)
		}
		return out
	}
	one := global(1)
	for _, ranks := range []int{2, 4} {
		if !slices.Equal(global(ranks), one) {
			t.Errorf("%d ranks mask different tokens", ranks)
		}
	}
	m, n := newEpoch(s, 0), newEpoch(s, 16)
	if slices.Equal(m, n) {
		t.Error("two epochs mask the same tokens")
	}
}

// newEpoch returns the targets of row 0 as a sample of the run.
func newEpoch(s *Sets, sample int64) []int32 {
	var r Row
	if err := s.Train.Row(0, &r); err != nil {
		panic(err)
	}
	targets := make([]int32, len(r.InputIDs))
	s.Masking.apply(r.InputIDs, targets, nil, 5, sample)
	return targets
}

// Rows with labels of their own are not masked; others need a tokenizer.
func TestMaskedRows(t *testing.T) {
	s := maskedSets(t, `{"input_ids": [2, 4, 6, 3], "labels": [-100, 5, -100, -100]}`)
	if s.Masking != nil {
		t.Error("rows with labels are masked")
	}
	_, err := Open(t.Context(), rowsConfig(t, `{"input_ids": [2, 5, 3]}`), ModelInfo{Task: MaskedLM}, nil, nil)
	wantError(t, err, "have no labels", "data.tokenizer")
	cfg := rowsConfig(t, `{"text": "ab"}`)
	cfg.SequenceLength = 2
	_, err = Open(t.Context(), cfg, ModelInfo{Task: MaskedLM}, bytesTokenizer(t), nil)
	wantError(t, err, "no mask token")
	cfg.MLMProbability = 1.5
	wantError(t, cfg.Validate(), "mlm_probability is 1.5")
}
