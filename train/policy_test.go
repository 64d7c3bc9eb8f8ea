package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"trireme/checkpoint"
	"trireme/collective"
	"trireme/device"
	"trireme/internal/conf"
	"trireme/model"
	"trireme/model/llama"
	"trireme/monitor"
	"trireme/optim"
	"trireme/tensor"
)

// Errors of the machine, and stops, are not input errors.
func TestInput(t *testing.T) {
	for _, machine := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, context.Canceled, context.DeadlineExceeded} {
		err := fmt.Errorf("data: %w", &fs.PathError{Op: "write", Path: "rows.bin", Err: machine})
		var mistake *InputError
		if got := input(err); got != err || errors.As(got, &mistake) {
			t.Errorf("%v is the input's", machine)
		}
	}
	for _, given := range []error{fs.ErrNotExist, os.ErrPermission, syscall.EISDIR, errors.New("row 3 has no text"), conf.NotOneOf("a", "b")} {
		var mistake *InputError
		if !errors.As(input(fmt.Errorf("data: %w", given)), &mistake) {
			t.Errorf("%v is not the input's", given)
		}
	}
	if input(nil) != nil {
		t.Error("no error is one")
	}
}

// Higher is better for accuracy and macro F1, lower for other metrics. The first of equal values wins;
// values that are not finite never do.
func TestBest(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	nan, inf := math.NaN(), math.Inf(1)
	for name, evaluation := range map[string]func(v float64) monitor.Evaluation{
		"eval_loss":  func(v float64) monitor.Evaluation { return monitor.Evaluation{Loss: v} },
		"loss":       func(v float64) monitor.Evaluation { return monitor.Evaluation{Loss: v} },
		"":           func(v float64) monitor.Evaluation { return monitor.Evaluation{Loss: v} },
		"perplexity": func(v float64) monitor.Evaluation { return monitor.Evaluation{Loss: math.Log(v)} },
		"kl":         func(v float64) monitor.Evaluation { return monitor.Evaluation{Means: map[string]float64{"kl": v}} },
		"accuracy": func(v float64) monitor.Evaluation {
			return monitor.Evaluation{Accuracy: number(v), MacroF1: number(-v)}
		},
		"macro_f1": func(v float64) monitor.Evaluation {
			return monitor.Evaluation{Accuracy: number(-v), MacroF1: number(v)}
		},
	} {
		more := name == "accuracy" || name == "macro_f1"
		for _, c := range []struct {
			values      []float64
			least, most int64 // step of the best
		}{
			{[]float64{0.5, 0.25, 0.75, 0.25, 0.75}, 2, 3},
			{[]float64{0.5, 0.5, 0.5}, 1, 1},
			{[]float64{nan, 0.5, nan}, 2, 2},
			{[]float64{0.5, 0.75, inf}, 1, 2},
			{[]float64{nan, nan}, 0, 0},
		} {
			want := c.least
			if more {
				want = c.most
			}
			cfg := Training{LoadBestModelAtEnd: true, MetricForBestModel: name}
			r := &Run{Config: Config{Training: cfg}, store: &checkpoint.Store{}, sink: monitor.Multi(nil)}
			got := int64(0)
			for i, v := range c.values {
				e := evaluation(v)
				e.Step = int64(i + 1)
				if err := r.updateBest(e); err != nil {
					t.Fatal(err)
				}
			}
			if r.state.Best != nil {
				got = r.state.Best.Step
			}
			if got != want {
				t.Errorf("%q, %v: the best is after step %d, want %d", name, c.values, got, want)
			}
		}
	}
	all := []monitor.Evaluation{{Step: 1, Loss: 1, Accuracy: number(0.5)}, {Step: 2, Loss: 3, Accuracy: number(0.75)}, {Step: 3, Loss: 2, Accuracy: number(0.75)}, {Step: 4, Loss: nan, Accuracy: number(nan)}}
	for name, want := range map[string]int64{"": 1, "eval_loss": 1, "accuracy": 2} {
		if best, ok := (Training{MetricForBestModel: name}).Best(all); !ok || best.Step != want {
			t.Errorf("%q: the best of all is after step %d, want %d", name, best.Step, want)
		}
	}
}

// Epochs round up to whole steps, warmup_ratio rounds down, and the schedule gets every setting.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		max    int
		epochs float64
		want   int
	}{{0, 1, 7}, {0, 1.5, 11}, {0, 3, 21}, {0, 0.01, 1}, {5, 3, 5}} {
		if got := (Training{MaxSteps: c.max, NumTrainEpochs: c.epochs}).steps(7); got != c.want {
			t.Errorf("%d steps, %v epochs of 7: %d steps, want %d", c.max, c.epochs, got, c.want)
		}
	}
	for _, c := range []struct {
		steps  int
		epochs float64
		want   int64
	}{{0, 0, 0}, {5, 0, 5}, {0, 1, 7}, {0, 0.5, 4}, {0, 0.01, 1}, {0, 2, 14}} {
		if got := every(c.steps, c.epochs, 7); got != c.want {
			t.Errorf("every %d steps, every %v epochs of 7: %d, want %d", c.steps, c.epochs, got, c.want)
		}
	}
	if got := (optim.Schedule{WarmupRatio: 0.3, LRDecayRatio: 0.5}).WithTotalSteps(9); got.WarmupSteps != 2 || got.LRDecaySteps != 4 || got.TotalSteps != 9 {
		t.Errorf("0.3 and 0.5 of 9 steps are a warm-up of %d and a decay of %d of %d", got.WarmupSteps, got.LRDecaySteps, got.TotalSteps)
	}
}

// Hooks also run after the last step.
func TestDue(t *testing.T) {
	for n, want := range map[int64][]int64{0: {7}, 1: {1, 2, 3, 4, 5, 6, 7}, 3: {3, 6, 7}, 7: {7}, 9: {7}} {
		var got []int64
		for step := int64(1); step <= 7; step++ {
			if due(n, monitor.Record{Step: step, MaxSteps: 7}) {
				got = append(got, step)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("every %d of 7 steps: %v, want %v", n, got, want)
		}
	}
}

// A stop in the last step is not an error.
func TestStopping(t *testing.T) {
	for _, c := range []struct {
		stopped bool
		step    int64
		want    error
	}{{false, 3, nil}, {true, 3, ErrStopped}, {true, 7, nil}} {
		r := &Run{settled: true}
		r.asked.stop = c.stopped
		err := stopHook{}.AfterStep(t.Context(), r, monitor.Record{Step: c.step, MaxSteps: 7})
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The epoch loss is the mean over label tokens without skipped steps.
func TestEpochLoss(t *testing.T) {
	var e epochLoss
	nan := math.NaN()
	for i, c := range []struct {
		o    StepResult
		want float64 // 0: none
	}{
		{StepResult{Loss: 4, Tokens: 10, Applied: true}, 0},
		{StepResult{Loss: nan, Tokens: 10}, 0},
		{StepResult{Loss: 1, Tokens: 30, Applied: true}, 1.75},
		{StepResult{Loss: 8, Tokens: 5}, 0}, // at a loss scale that is too high
		{StepResult{Loss: nan, Tokens: 0, Applied: true}, 0},
		{StepResult{Loss: 3, Tokens: 5, Applied: true}, 3},
		{StepResult{Loss: nan, Tokens: 5}, 0},
		{StepResult{Loss: nan, Tokens: 5}, 0},
		{StepResult{Loss: nan, Tokens: 5}, 0},
	} {
		got := e.add(c.o, int64(i+1), 3)
		if (got == nil) != (c.want == 0) || got != nil && *got != c.want {
			t.Errorf("step %d: %v, want %v", i+1, got, c.want)
		}
	}
}

// Accuracy, and macro F1 as scikit-learn's f1_score(average="macro").
func TestScores(t *testing.T) {
	for _, c := range []struct {
		hits, found, actual []float64
		tokens              int64
		accuracy, f1        float64
	}{
		{[]float64{3, 1}, []float64{4, 2}, []float64{4, 2}, 6, 4.0 / 6, (6.0/8 + 2.0/4) / 2},
		{[]float64{3, 1, 0}, []float64{4, 2, 0}, []float64{4, 2, 0}, 6, 4.0 / 6, (6.0/8 + 2.0/4) / 2}, // the third is nowhere
		{[]float64{3, 0, 0}, []float64{5, 1, 0}, []float64{4, 0, 2}, 6, 0.5, (6.0 / 9) / 3},           // found and not there, there and not found
	} {
		info := model.Info{Sums: []string{"kl"}, Labels: len(c.hits)}
		o := StepResult{Tokens: c.tokens, Sums: append(append(append([]float64{7}, c.hits...), c.found...), c.actual...)}
		var e monitor.Evaluation
		o.score(&e, info)
		if math.Abs(*e.Accuracy-c.accuracy) > 1e-15 || math.Abs(*e.MacroF1-c.f1) > 1e-15 {
			t.Errorf("%+v: accuracy %v, macro F1 %v", c, *e.Accuracy, *e.MacroF1)
		}
	}
}

// After loading the best weights, a run in 16 bits evaluates as it did then.
func TestBestModelComputes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rows := func(from int) (text string) {
		for i := range 8 {
			text += fmt.Sprintf("{\"input_ids\": [%d, %d, %d, %d]}\n", (from+3*i)%20, (from+5*i)%20, (from+7*i)%20, (from+11*i)%20)
		}
		return text
	}
	c := Default()
	c.Model.Config = write("config.json", `{"architectures": ["LlamaForCausalLM"], "vocab_size": 20, "hidden_size": 16, "intermediate_size": 28,
		"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 8}`)
	c.Data.Path, c.Data.EvalPath, c.OutputDir = write("train.jsonl", rows(0)), write("eval.jsonl", rows(9)), filepath.Join(dir, "out")
	c.Training.MaxSteps, c.Training.MicroBatchSize, c.Training.EvalEveryNSteps, c.Training.LearningRate = 30, 8, 1, 2e-2
	c.Training.LRScheduler, c.Training.LoadBestModelAtEnd, c.Precision.ParamDType = "constant", true, "bfloat16"
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer worlds[0].Close()
	r, err := Open(t.Context(), c, Deps{Registry: model.Registry{llama.Family}, World: worlds[0], ProcessGroup: checkpoint.SingleProcess{}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.state.Best.Step == r.state.Step {
		t.Fatal("the last evaluation is the best: the case shows nothing")
	}
	e, err := r.evaluateOn(t.Context(), r.sets.Eval)
	if err != nil || e.Loss != r.state.Best.Value {
		t.Errorf("loss %v, %v, of the best evaluation %v", e.Loss, err, r.state.Best.Value)
	}
}

// An exported classifier has the data's label names, and default names for the rest.
func TestLabelNames(t *testing.T) {
	config := map[string]json.RawMessage{"id2label": json.RawMessage(`{"0": "old"}`)}
	if err := nameLabels(config, nil, 3); err != nil || string(config["id2label"]) != `{"0": "old"}` || len(config) != 1 {
		t.Errorf("without names: %s, %v", config, err)
	}
	if err := nameLabels(config, []string{"ham", "spam"}, 3); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"id2label": `{"0":"ham","1":"spam","2":"LABEL_2"}`, "label2id": `{"LABEL_2":2,"ham":0,"spam":1}`} {
		if string(config[key]) != want {
			t.Errorf("%s is %s, want %s", key, config[key], want)
		}
	}
}

// Frozen parameters have no gradients, moments or master weights.
func TestOnlyTrainingHoldsState(t *testing.T) {
	config, err := model.Registry{llama.Family}.ParseConfig("config.json", []byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 20,
		"hidden_size": 16, "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 8}`))
	if err != nil {
		t.Fatal(err)
	}
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer worlds[0].Close()
	for _, training := range []bool{true, false} {
		b, err := device.Open("meta", device.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		a, err := Default().Build(b, config, 8, Ranks{Ranks: worlds[0]}, training)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Engine.Close()
		use := b.Meter().Read()
		held := use.Live[tensor.Grads] + use.Live[tensor.Optimizer] + use.Live[tensor.Master] + use.Live[tensor.Buckets]
		if (held > 0) != training || use.Live[tensor.Params] == 0 {
			t.Errorf("training %v: %d bytes beside %d of parameters", training, held, use.Live[tensor.Params])
		}
	}
}

// TestTimeLimitCopies: a stop leaves time for two copies to the last tier, the one in progress and the last.
func TestTimeLimitCopies(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		left time.Duration
		copy time.Duration
		want bool
	}{
		{116 * time.Second, 0, false},
		{114 * time.Second, 0, true},
		{136 * time.Second, 10 * time.Second, false},
		{134 * time.Second, 10 * time.Second, true},
	} {
		// The margin, three steps, an evaluation and two saves are 60 + 3*5 + 20 + 2*10 = 115 s.
		l := timeLimit{end: now.Add(c.left), margin: time.Minute, save: 10 * time.Second, eval: 20 * time.Second, copy: c.copy}
		if got := l.reached(now, 5*time.Second, 2); got != c.want {
			t.Errorf("%v left, copies of %v: stops %v", c.left, c.copy, got)
		}
	}
	// A copy that fails takes time too.
	store, err := checkpoint.NewStore(t.TempDir(), "a-run", checkpoint.Config{}, checkpoint.SingleProcess{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{store: store, sink: monitor.Multi(nil), copies: copies{to: store, saved: filepath.Join(t.TempDir(), "none"), step: 1}}
	r.startCopy(t.Context())
	r.copies.running.Wait()
	r.copies.began = now.Add(-time.Minute)
	if err := r.noteCopy(); err != nil || r.limit.copy < time.Minute || r.copies.running != nil || r.copies.done != 0 {
		t.Errorf("%v: the longest copy took %v", err, r.limit.copy)
	}
}
