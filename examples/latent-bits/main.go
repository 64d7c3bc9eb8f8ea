// Latent-bits measures the content of the Free Transformer's latent bits on the synthetic task of the
// paper (arXiv 2510.17558), trained with kappa = 1/64, 1/8, 1 and 8 free bits per position.
//
//	go run ./examples/latent-bits
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"

	"trireme/autograd"
	"trireme/checkpoint"
	"trireme/collective"
	"trireme/data"
	"trireme/device"
	"trireme/model"
	"trireme/model/freetransformer"
	"trireme/monitor"
	"trireme/tensor"
	"trireme/train"
)

const config = `{
  "architectures": ["FreeTransformerForCausalLM"], "model_type": "free_transformer",
  "vocab_size": %d, "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": 4, "num_attention_heads": 4,
  "max_position_embeddings": 66, "tie_word_embeddings": true, "latent_bits": %d, "free_bits": %v
}`

var dtype *string

func main() {
	steps := flag.Int("steps", 8000, "optimizer steps per run")
	width := flag.Int("width", 64, "hidden size")
	bits := flag.Int("bits", 8, "latent bits per position")
	rate := flag.Float64("lr", 1e-3, "learning rate")
	dtype = flag.String("dtype", "float32", "type of parameters in computation")
	only := flag.Float64("kappa", 0, "train with this kappa only; 0: all four")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	kappas := []float64{1. / 64, 1. / 8, 1, 8}
	if *only > 0 {
		kappas = []float64{*only}
	}
	fmt.Println("                               remaining nats              text generated with the bits of another")
	fmt.Println("kappa      kl_bits  cross_entropy  position  noise  letter  same position  within 4  noise kept  prompted letter")
	fmt.Printf("none                               %8.2f %6.2f %7.2f\n", unknown.position, unknown.noise, unknown.letter)
	for _, kappa := range kappas {
		if err := runExperiment(ctx, kappa, *steps, *width, *bits, *rate); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// runExperiment trains with one kappa and prints its row.
func runExperiment(ctx context.Context, kappa float64, steps, width, bits int, rate float64) error {
	dir, err := os.MkdirTemp("", "latent-bits")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	json := fmt.Sprintf(config, vocabulary, width, width*8/3, bits, kappa)
	last, err := fit(ctx, dir, json, steps, rate)
	if err != nil {
		return err
	}
	m, err := train.LoadModel(model.Registry{freetransformer.Family}, filepath.Join(dir, "final"), device.DefaultConfig(), train.Float32)
	if err != nil {
		return err
	}
	defer m.Close()
	k, a, example := probe(m.Backend, m.Model.(*freetransformer.Model), bits)
	fmt.Printf("%-9v  %7.3f  %13.4f  %8.2f %6.2f %7.2f  %13.2f  %8.2f  %10.2f  %15.2f\n", kappa,
		last.Means["kl_bits"], last.Means["cross_entropy"], k.position, k.noise, k.letter, a.position, a.near, a.noise, a.prompted)
	fmt.Print(example)
	return nil
}

// fit trains a model, exports it to dir/final, and returns the last evaluation.
func fit(ctx context.Context, dir, json string, steps int, rate float64) (last monitor.Evaluation, err error) {
	const rows = 64
	for name, n := range map[string]int{"train.jsonl": rows * steps, "eval.jsonl": 512} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return last, err
		}
		if err := write(f, n, uint64(n)); err != nil {
			return last, err
		}
		if err := f.Close(); err != nil {
			return last, err
		}
	}
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		return last, err
	}
	defer worlds[0].Close()
	families := model.Registry{freetransformer.Family}
	mc, err := families.ParseConfig("config.json", []byte(json))
	if err != nil {
		return last, err
	}
	cfg := train.Default()
	cfg.OutputDir, cfg.Model.Config, cfg.Precision.ParamDType = dir, "config.json", *dtype
	cfg.Data.Path, cfg.Data.EvalPath, cfg.Data.Shuffle = filepath.Join(dir, "train.jsonl"), filepath.Join(dir, "eval.jsonl"), false
	cfg.Training.MicroBatchSize, cfg.Training.MaxSteps, cfg.Training.WarmupSteps, cfg.Training.LearningRate = rows, steps, 50, rate
	r, err := train.Open(ctx, cfg, train.Deps{
		Registry: families, Model: mc, World: worlds[0], ProcessGroup: checkpoint.SingleProcess{},
		Sink: func(int64) (monitor.Sink, error) { return lastEvaluation{&last}, nil },
	})
	if err != nil {
		return last, err
	}
	defer r.Close()
	if err := r.Train(ctx); err != nil {
		return last, err
	}
	return last, r.Export(ctx, filepath.Join(dir, "final"))
}

// lastEvaluation is a record sink that keeps the last evaluation.
type lastEvaluation struct{ last *monitor.Evaluation }

func (k lastEvaluation) Record(r monitor.Record) error {
	if r.Step%250 == 0 {
		fmt.Fprintf(os.Stderr, "step %d of %d: cross_entropy %.4f, kl_bits %.4f\n", r.Step, r.MaxSteps, r.Means["cross_entropy"], r.Means["kl_bits"])
	}
	return nil
}
func (k lastEvaluation) Evaluate(e monitor.Evaluation) error { *k.last = e; return nil }
func (k lastEvaluation) Note(string) error                   { return nil }
func (k lastEvaluation) Close() error                        { return nil }

// probe encodes texts to bits and passes these to the model with another letter in the prompt. It
// measures the cost of the same text with that letter, and compares the text that the model generates.
func probe(b tensor.Backend, m *freetransformer.Model, bits int) (mean nats, written agreement, example string) {
	const n, t = 128, 2 + length
	r := rand.New(rand.NewPCG(77, 1))
	var samples []sample
	ids := make([]int32, 0, n*t)
	for range n {
		s := draw(r)
		samples, ids = append(samples, s), append(ids, s.ids...)
	}
	signs := b.New(tensor.Workspace, tensor.F32, n*t, bits)
	defer signs.Release()
	logits(b, m, ids, n, 0, freetransformer.LatentSource{Encode: true, Drawn: signs})
	source := freetransformer.LatentSource{Signs: signs}

	var others []sample
	text := make([]int32, 0, n*t)
	for _, s := range samples {
		o := s.with((s.letter + 1 + r.IntN(25)) % 26)
		others, text = append(others, o), append(text, o.ids...)
	}
	for p := 1; p < t-1; p++ {
		v := logits(b, m, text, n, p, source)
		for i, o := range others {
			k := o.cost(v[i*vocabulary:(i+1)*vocabulary], p-1)
			mean.position, mean.noise, mean.letter = mean.position+k.position/n, mean.noise+k.noise/n, mean.letter+k.letter/n
		}
	}

	for i := range n {
		clear(text[i*t+2 : (i+1)*t])
	}
	for p := 2; p < t; p++ {
		v := logits(b, m, text, n, p-1, source)
		for i := range n {
			text[i*t+p] = pick(v[i*vocabulary:(i+1)*vocabulary], r.Float64())
		}
	}
	for i, s := range samples {
		a := compare(s, others[i].letter, text[i*t+2:(i+1)*t])
		written.position += a.position / n
		written.near += a.near / n
		written.noise += a.noise / n
		written.prompted += a.prompted / n
		if i < 4 {
			example += fmt.Sprintf("  bits of   %s\n  gave      %s\n", show(s.ids), show(text[i*t:(i+1)*t]))
		}
	}
	return mean, written, example
}

// logits returns the logits [n vocabulary] at position last of each of n sequences.
func logits(b tensor.Backend, m *freetransformer.Model, ids []int32, n, last int, s freetransformer.LatentSource) []float32 {
	t := len(ids) / n
	micro := data.UniformMicroBatch(n, len(ids), t, data.Info{})
	copy(micro.InputIDs, ids)
	batch, done := train.Upload(b, micro)
	defer done()
	batch.Seed = 5
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i*t + last
	}
	out := m.LogitsFrom(autograd.NewTape(b, tensor.F32, false), batch, s, rows...)
	defer out.Release()
	v := make([]float32, out.Elems())
	b.Download(tensor.AsBytes(v), out)
	return v
}

// pick samples an id from the softmax of logits by the uniform number u.
func pick(logits []float32, u float64) int32 {
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v))
	}
	for i, v := range logits {
		if u -= math.Exp(float64(v)) / sum; u < 0 {
			return int32(i)
		}
	}
	return int32(len(logits) - 1)
}
