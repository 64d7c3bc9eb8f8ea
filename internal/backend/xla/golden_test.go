package xla_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/autograd"
	"trireme/collective"
	"trireme/data"
	"trireme/device"
	"trireme/internal/backend/meta"
	"trireme/internal/backend/record"
	"trireme/internal/backend/xla"
	"trireme/model"
	"trireme/model/llama"
	"trireme/tensor"
	"trireme/train"
)

const goldenModel = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4,
	"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "tie_word_embeddings": false}`

// recording records programs and runs none.
type recording struct {
	*record.Backend
	programs []*record.Program
}

func (r *recording) Compile(last bool, f func() error) error {
	rec, err := r.Record(last, f)
	if err == nil {
		r.programs = append(r.programs, rec.Program)
	}
	return err
}

// stepPrograms are the programs of a rank's first step.
func stepPrograms(t *testing.T, w collective.World, strategy string, groups map[string][][]int) ([]*record.Program, error) {
	config, err := model.Registry{llama.Family}.ParseConfig("config.json", []byte(goldenModel))
	if err != nil {
		return nil, err
	}
	cpu, err := device.Open("cpu", device.Options{Reserve: 1 << 28})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { cpu.Close() })
	b := &recording{Backend: record.New(cpu)}
	cfg := train.Default()
	cfg.Parallel.Strategy, cfg.Training.MicroBatchSize, cfg.Precision.ParamDType = strategy, 2, "bfloat16"
	c, err := cfg.Build(b, config, 16, train.Ranks{Ranks: xla.WithGroups(b.World(w), groups)}, true)
	if err != nil {
		return nil, err
	}
	defer c.Engine.Close()
	if err := c.Engine.Refresh(context.Background()); err != nil {
		return nil, err
	}
	micro := data.UniformMicroBatch(2, 32, 16, data.Info{})
	err = c.Stepper.Step(context.Background(), []data.MicroBatch{micro}, func(int) float64 { return 1e-3 })
	return b.programs, err
}

// A step sharded over two ranks is the same text on both. Loops, collectives and their overlap are in the
// golden file.
func TestGoldenStep(t *testing.T) {
	const ranks = 2
	worlds, err := collective.NewLocal(ranks, collective.Config{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	texts, errs := make([]string, ranks), make([]error, ranks)
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			groups := map[string][][]int{}
			ps, err := stepPrograms(t, worlds[r], "full_shard", groups)
			if err == nil {
				texts[r], err = xla.Emit(ps[len(ps)-1], "cuda", groups, ranks)
			}
			errs[r] = err
		})
	}
	all.Wait()
	for r, err := range errs {
		worlds[r].Close()
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	if diff := record.Diff(texts[0], texts[1]); diff != "" {
		t.Errorf("rank 1 has another program than rank 0: %s", diff)
	}
	checkConstants(t, texts[0])
	checkGolden(t, "full_shard_step.txt", outline(texts[0]))
}

// One decoder layer, forward and backward.
func TestGoldenLayer(t *testing.T) {
	config, err := model.Registry{llama.Family}.ParseConfig("config.json", []byte(goldenModel))
	if err != nil {
		t.Fatal(err)
	}
	b := record.New(meta.New())
	m, err := config.Make(b, 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range model.Params(m) {
		p.Value = b.New(tensor.Params, tensor.BF16, p.Shape...)
		g := b.New(tensor.Grads, tensor.F32, p.Shape...)
		p.SetGradDst(func() (*tensor.Tensor, bool) { return g, false })
	}
	state := func() *tensor.Tensor { return b.New(tensor.Activations, tensor.BF16, 32, 16) }
	x, dy := state(), state()
	rec, err := b.Record(false, func() error {
		batch, done := train.Upload(b, data.UniformMicroBatch(2, 32, 16, data.Info{}))
		defer done()
		tape := autograd.NewTape(b, tensor.BF16, true)
		grad := state() // the tape releases it
		b.Copy(grad, dy)
		in := tape.Input(x)
		out := model.Run(m, tape, in, batch, 1, 2, nil)
		tensor.DownloadAsync(b, out.Value)
		tape.Seed(out, grad)
		tape.Backward()
		dx := tape.Gradient(in)
		tensor.DownloadAsync(b, dx)
		dx.Release()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := xla.Emit(rec.Program, "cuda", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	checkConstants(t, text)
	checkGolden(t, "layer.mlir", text)
}

var constants = regexp.MustCompile(`dense<\[([^\]]*)\]>`)

// checkConstants checks that no constant is larger than 1 KB.
func checkConstants(t *testing.T, text string) {
	t.Helper()
	for _, list := range constants.FindAllStringSubmatch(text, -1) {
		if n := strings.Count(list[1], ",") + 1; n > 128 {
			t.Errorf("a constant of %d elements", n)
		}
	}
}

// outline keeps the parameters, loops, collectives, barriers and products of a program.
func outline(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		for _, op := range []string{"func", "while", "return", "all_gather", "all_reduce", "reduce_scatter", "optimization_barrier", "dot_general", "^bb0"} {
			if strings.Contains(line, op) {
				out.WriteString(line)
				break
			}
		}
	}
	return out.String()
}

// checkGolden compares a text with a file; UPDATE=1 writes it.
func checkGolden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := record.Diff(string(want), text); diff != "" {
		t.Errorf("%s differs. UPDATE=1 writes it: %s", path, diff)
	}
}
