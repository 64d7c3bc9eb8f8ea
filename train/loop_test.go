package train_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/device"
	"trireme/model"
	"trireme/model/bert"
	"trireme/model/llama"
	"trireme/monitor"
	"trireme/optim"
	"trireme/train"
)

// Evaluation has no dropout.
func TestEvaluationDropsNothing(t *testing.T) {
	j := newResumable(t, false, false)
	run := func(p float64) *recordingSink {
		c := j.config
		c.Training.LearningRate, c.Training.MaxSteps, c.Training.WarmupSteps = 0, 1, 0
		c.Model.Config = filepath.Join(j.dir, "dropout.json")
		config := strings.Replace(fmt.Sprintf(tinyConfig, false), "{", fmt.Sprintf(`{"attention_dropout": %v, `, p), 1)
		if err := os.WriteFile(c.Model.Config, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		c.OutputDir = filepath.Join(j.dir, fmt.Sprint("out", p))
		k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
		j.run(t, c, 1, 0, k)
		return k
	}
	with, without := run(0.5), run(0)
	if with.steps[1] == without.steps[1] {
		t.Error("training has no dropout: the case tests nothing")
	}
	if with.evals[1] != without.evals[1] || with.evals[1] == "" {
		t.Errorf("evaluation with dropout: %s, without: %s", with.evals[1], without.evals[1])
	}
}

// A masked model is evaluated on masked tokens, about 15%, as it is trained.
func TestMaskedEvaluation(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	vocab := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
	for i := range 50 {
		vocab += fmt.Sprintf("w%d\n", i)
	}
	const rows, words = 40, 30
	text := ""
	for i := range rows {
		var line []string
		for k := range words {
			line = append(line, fmt.Sprint("w", (7*i+3*k)%50))
		}
		text += fmt.Sprintf("{\"text\": %q}\n", strings.Join(line, " "))
	}
	write("tokenizer/vocab.txt", vocab)
	write("tokenizer/tokenizer_config.json", `{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}`)
	c := train.Default()
	c.Model.Config = write("config.json", `{"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 55, "hidden_size": 24, "intermediate_size": 52,
		"num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 32}`)
	c.Data.Path, c.Data.EvalPath = write("train.jsonl", text), write("eval.jsonl", text)
	c.Data.Tokenizer, c.Data.SequenceLength, c.Data.Packing = filepath.Join(dir, "tokenizer"), words+2, new(false)
	c.Data.CacheDir, c.OutputDir = filepath.Join(dir, "cache"), filepath.Join(dir, "out")
	c.Training.MaxSteps, c.Training.MicroBatchSize = 1, rows
	j := &resumable{dir: dir, config: c}
	deps, done := j.alone(t, nil)
	defer done()
	deps.Registry = model.Registry{llama.Family, bert.Family}
	kept := &records{}
	deps.Sink = func(int64) (monitor.Sink, error) { return kept, nil }
	r, err := train.Open(context.Background(), c, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	hidden := map[string]int64{"step": kept.steps[0].LabelTokens, "evaluation": kept.evals[0].Tokens}
	for what, n := range hidden { // 180 of 1200 are expected, with a deviation of 12
		if n < 120 || n > 240 {
			t.Errorf("%s: the loss is on %d of %d tokens", what, n, rows*words)
		}
	}
}

// records is a Sink that stores everything.
type records struct {
	steps []monitor.Record
	evals []monitor.Evaluation
}

func (k *records) Record(r monitor.Record) error { k.steps = append(k.steps, r); return nil }

func (k *records) Evaluate(e monitor.Evaluation) error { k.evals = append(k.evals, e); return nil }

func (k *records) Note(string) error { return nil }

func (k *records) Close() error { return nil }

// A run whose initial loss scale overflows skips steps until it fits. Learning rate, bias correction and
// parameters then equal those of a run that starts at that scale with the same rows.
func TestSkippedStepsLeaveNoTrace(t *testing.T) {
	j := newResumable(t, false, false)
	run := func(power int) *recordingSink {
		c := j.config
		b, err := os.ReadFile(filepath.Join(j.dir, "rows.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		c.Data.Path = filepath.Join(j.dir, "four.jsonl")
		if err := os.WriteFile(c.Data.Path, []byte(strings.Join(strings.SplitAfter(string(b), "\n")[:4], "")), 0o644); err != nil {
			t.Fatal(err)
		}
		c.Data.EvalFraction, c.Data.Shuffle = 0, false
		c.Training.MaxSteps, c.Training.WarmupSteps, c.Training.LRScheduler = 24, 3, "cosine"
		c.Precision = train.Precision{ParamDType: "float16", ReduceDType: "float32", BufferDType: "float32",
			LossScaling: optim.LossScaling{Kind: optim.TorchScaler, InitialScalePower: power}}
		c.OutputDir = filepath.Join(j.dir, fmt.Sprint("at", power))
		k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}, scales: map[int64]float64{}}
		j.run(t, c, 1, 0, k)
		return k
	}
	high, skipped := run(30), int64(0)
	for high.scales[skipped+1] < 0 {
		skipped++
	}
	if skipped < 3 || skipped > 20 {
		t.Fatalf("%d steps are skipped: the case tests nothing: %v", skipped, high.scales)
	}
	fits := run(30 - int(skipped))
	for step := int64(1); step <= 24-skipped; step++ {
		got, _, _ := strings.Cut(high.steps[skipped+step], " epoch") // whose number differs
		if want, _, _ := strings.Cut(fits.steps[step], " epoch"); got != want {
			t.Errorf("step %d: %s, in a run that begins there %s", skipped+step, got, want)
		}
	}
}

// Only consecutive skipped steps count for max_skipped_steps. A run that skips all steps is an error.
func TestSkippedInARow(t *testing.T) {
	j := newResumable(t, false, true)
	k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	c := j.config
	c.Training.MaxSteps, c.Training.MaxSkippedSteps = 40, 40
	if err := j.attempt(t, c, k); err != nil {
		t.Fatal(err)
	}
	row, most := 0, 0
	for step := int64(1); step <= 40; step++ {
		if row++; strings.Contains(k.steps[step], "skipped false") {
			row = 0
		}
		most = max(most, row)
	}
	if most == 0 || k.skips <= most {
		t.Fatalf("%d steps are skipped, %d in a row: the case tests nothing", k.skips, most)
	}
	for allowed, want := range map[int]error{most: nil, most - 1: train.ErrNotFinite} {
		c.OutputDir, c.Training.MaxSkippedSteps = filepath.Join(j.dir, fmt.Sprint("allowed", allowed)), allowed
		if err := j.attempt(t, c, &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}); !errors.Is(err, want) {
			t.Errorf("%d skipped steps in a row are allowed, there are %d: %v", allowed, most, err)
		}
	}
	c = j.config
	c.OutputDir = filepath.Join(j.dir, "nothing")
	c.Training.LearningRate, c.Training.MaxSteps, c.Training.MaxSkippedSteps = 1e-2, 2, 3
	c.Precision.ParamDType, c.Precision.LossScaling = "float16", optim.LossScaling{Kind: optim.StaticScaler, LossScale: 1 << 40}
	if err := j.attempt(t, c, &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}); !errors.Is(err, train.ErrNotFinite) || !strings.Contains(err.Error(), "all 2 steps were skipped") {
		t.Errorf("a run that trained nothing: %v", err)
	}
}

// keep_last_n keeps the best checkpoint after a resume, and the run ends with its parameters. A new run
// from that checkpoint has its own best.
func TestBestModelAfterResume(t *testing.T) {
	j := newResumable(t, false, false)
	c := j.config
	c.Training.LearningRate, c.Training.MaxSteps, c.Training.LRScheduler = 2e-2, 40, "constant"
	c.Training.LoadBestModelAtEnd, c.Checkpoint.KeepLastN, c.Checkpoint.SaveEveryNSteps = true, 1, 3
	seen := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	j.run(t, c, 1, 30, seen)
	before := len(seen.evals)
	c.Resume = "auto"
	j.train(t, c, seen, func(*train.Run) error { return nil })
	if before != 15 || len(seen.evals) != 20 || !slices.Equal(seen.begun, []int64{0, 30}) {
		t.Fatalf("%d and then %d evaluations, after steps %v", before, len(seen.evals), seen.begun)
	}
	least := func(evals map[int64]string, from int64) (step int64) {
		loss := 0.0
		for _, s := range slices.Sorted(maps.Keys(evals)) {
			v, err := strconv.ParseFloat(strings.Fields(evals[s])[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			if s >= from && (step == 0 || v < loss) {
				step, loss = s, v
			}
		}
		return step
	}
	best := least(seen.evals, 0)
	if best >= 30 {
		t.Fatalf("the best is after step %d: the case tests nothing", best)
	}
	path := filepath.Join(c.OutputDir, "checkpoints", fmt.Sprint("step-", best))
	if ck, err := checkpoint.Open(path); err != nil {
		t.Errorf("the best checkpoint is gone: %v", err)
	} else {
		ck.Close()
	}
	if !slices.ContainsFunc(seen.notes, func(n string) bool { return strings.HasPrefix(n, "loaded the best checkpoint "+path+" (eval_loss ") }) {
		t.Errorf("the end does not have the best: %q", seen.notes)
	}

	c.Resume, c.OutputDir = filepath.Join(c.OutputDir, "checkpoints", "step-40"), filepath.Join(j.dir, "other")
	c.Training.MaxSteps = 44
	other := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
	j.train(t, c, other, func(*train.Run) error { return nil })
	if !slices.Contains(other.notes, fmt.Sprintf("the best evaluation of that run, after step %d, does not carry over to this run", best)) {
		t.Errorf("notes are %q", other.notes)
	}
	if own := least(other.evals, 41); own != 44 && !slices.ContainsFunc(other.notes, func(n string) bool {
		return strings.HasPrefix(n, fmt.Sprintf("loaded the best checkpoint %s ", filepath.Join(c.OutputDir, "checkpoints", fmt.Sprint("step-", own))))
	}) {
		t.Errorf("the best is after step %d: %q", own, other.notes)
	}
}

// training.seed determines initial weights, row order and dropout independently.
func TestSeed(t *testing.T) {
	for what, change := range map[string]func(j *resumable, c *train.Config){
		"first weights": func(_ *resumable, c *train.Config) { c.Data.Shuffle = false },
		"order":         func(j *resumable, c *train.Config) {},
		"dropout": func(j *resumable, c *train.Config) {
			c.Data.Shuffle = false
			path := filepath.Join(c.Model.Path, "config.json")
			config := strings.Replace(fmt.Sprintf(tinyConfig, false), "{", `{"attention_dropout": 0.5, `, 1)
			if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	} {
		j := newResumable(t, false, what != "first weights")
		c := j.config
		c.Data.EvalFraction, c.Training.MaxSteps = 0, 3
		change(j, &c)
		run := func(seed uint64, name string) map[int64]string {
			c.Training.Seed, c.OutputDir = seed, filepath.Join(j.dir, name)
			k := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
			j.run(t, c, 1, 0, k)
			return k.steps
		}
		one := run(7, "one")
		if !maps.Equal(one, run(7, "again")) {
			t.Errorf("%s: not the same with the same seed", what)
		}
		if maps.Equal(one, run(8, "other")) {
			t.Errorf("%s: the same with another seed", what)
		}
	}
}

// If any rank is asked to stop, all end after the same step and save its checkpoint.
func TestOneRankIsAskedToStop(t *testing.T) {
	j := newResumable(t, false, false)
	worlds, err := collective.NewLocal(3, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := j.config
	c.Training.GlobalBatchSize = 6
	meet, ends := collectivetest.NewBootstrap(3), make([]error, 3)
	var wg sync.WaitGroup
	for _, w := range worlds {
		wg.Go(func() {
			defer w.Close()
			steps := 0
			deps := train.Deps{Registry: model.Registry{llama.Family}, World: w, ProcessGroup: meet.Rank(w.Rank()), LocalRanks: 3, Stop: func() bool {
				steps++
				return w.Rank() == 1 && steps == 4
			}}
			ends[w.Rank()] = func() error {
				r, err := train.Open(context.Background(), c, deps)
				if err != nil {
					return err
				}
				return errors.Join(r.Train(context.Background()), r.Close())
			}()
		})
	}
	wg.Wait()
	for rank, err := range ends {
		if !errors.Is(err, train.ErrStopped) || !strings.Contains(err.Error(), "at step 4 of 11") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if _, err := checkpoint.Open(filepath.Join(c.OutputDir, "checkpoints", "step-4")); err != nil {
		t.Error(err)
	}
}

// load_best_model_at_end without an evaluation set is an error.
func TestNoEvaluationSet(t *testing.T) {
	j := newResumable(t, false, false)
	c := j.config
	c.Data.EvalFraction, c.Training.LoadBestModelAtEnd = 0, true
	var mistake *train.InputError
	if err := j.attempt(t, c, &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), "load_best_model_at_end needs an evaluation set") {
		t.Error(err)
	}
}

// A model whose files lack its head can be trained but not used.
func TestUnfinishedModel(t *testing.T) {
	from, dir := filepath.Join("testdata", "golden", "bert-masked", "model"), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	b = []byte(strings.Replace(string(b), "BertForMaskedLM", "BertForSequenceClassification", 1))
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := train.LoadModel(families, dir, device.Config{Name: "cpu", Threads: 1}, train.Float32)
	if err == nil {
		m.Close()
	}
	var mistake *train.InputError
	if !errors.As(err, &mistake) || !strings.Contains(err.Error(), "the weights do not fit config.json") {
		t.Error(err)
	}
}
