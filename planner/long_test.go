package planner_test

import (
	"context"
	"fmt"
	"testing"

	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

// longJob trains one row of a small Llama.
func longJob(t *testing.T, positions, vocab int) planner.Job {
	t.Helper()
	c, err := families.ParseConfig("long", fmt.Appendf(nil, `{"architectures": ["LlamaForCausalLM"], "vocab_size": %d, "hidden_size": 32, "intermediate_size": 64,
		"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32768}`, vocab))
	if err != nil {
		t.Fatal(err)
	}
	j := planner.Job{Config: train.Default(), Model: c, Ranks: 1, Positions: positions}
	j.Config.Training.MicroBatchSize, j.Config.Training.GlobalBatchSize = 1, 1
	return j
}

func usage(t *testing.T, j planner.Job) tensor.Usage {
	t.Helper()
	p, err := j.Run(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p.Memory
}

// Memory is linear in the length of a row: each further token takes equal memory.
func TestLongRowsTakeLinearMemory(t *testing.T) {
	peak := func(positions int) int64 { return usage(t, longJob(t, positions, 61)).PeakTotal }
	short, half, whole := peak(8192), peak(16384), peak(32768)
	if first, second := half-short, whole-half; first <= 0 || second > first*201/100 {
		t.Errorf("rows of 8192, 16384 and 32768 take %d, %d and %d bytes", short, half, whole)
	}
	same(t, "a step of 8192 positions", usage(t, longJob(t, 8192, 61)), measure(t, longJob(t, 8192, 61), 2)[0])
}

// Logits take a block of rows, however many rows there are: 32 MiB, or 256 rows of large vocabularies,
// which are enough to keep the products with the head efficient.
func TestLargeVocabularies(t *testing.T) {
	for _, vocab := range []int{32000, 128256, 262144} {
		logits := func(positions int) int64 {
			return usage(t, longJob(t, positions, vocab)).Peak[tensor.Logits]
		}
		some, many := logits(1024), logits(32768)
		t.Logf("vocabulary %d: %d MiB of logits", vocab, many>>20)
		if many != some {
			t.Errorf("vocabulary %d: %d bytes of logits for 1024 rows, %d for 32768", vocab, some, many)
		}
		if row := int64(4 * vocab); many > max(32<<20, 256*row) || many < 256*row {
			t.Errorf("vocabulary %d: %d bytes of logits, %d rows", vocab, many, many/row)
		}
	}
}
