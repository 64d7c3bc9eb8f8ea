package train_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"trireme/autograd"
	"trireme/device"
	"trireme/internal/impl"
	"trireme/model"
	"trireme/model/llama"
	"trireme/optim"
	"trireme/tensor"
	"trireme/train"
)

func newSink() *recordingSink {
	return &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
}

// sameAs compares a run with a break with one without: records, evaluations and the last checkpoint.
func (j *resumable) sameAs(t *testing.T, c, whole train.Config, parts, through *recordingSink) {
	t.Helper()
	if len(through.steps) == 0 || len(parts.steps) != len(through.steps) {
		t.Errorf("%d steps, without the break %d", len(parts.steps), len(through.steps))
	}
	for step, want := range through.steps {
		if got := parts.steps[step]; got != want {
			t.Errorf("step %d: %s, without the break %s", step, got, want)
		}
	}
	for step, want := range through.evals {
		if got := parts.evals[step]; got != want {
			t.Errorf("evaluation after step %d: %s, without the break %s", step, got, want)
		}
	}
	last := filepath.Join("checkpoints", fmt.Sprint("step-", c.Training.MaxSteps))
	got, want := state(t, filepath.Join(c.OutputDir, last)), state(t, filepath.Join(whole.OutputDir, last))
	if len(got) != len(want) {
		t.Errorf("%d tensors, without the break %d", len(got), len(want))
	}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s differs from that without the break", name)
		}
	}
}

// counted calls f when a training pass of a micro-batch begins.
type counted struct {
	model.Model
	f func()
}

func (m counted) Forward(t *autograd.Tape, i int, x *autograd.Var, b model.Batch, sums *tensor.Tensor) *autograd.Var {
	if i == 0 && b.Train {
		m.f()
	}
	return m.Model.Forward(t, i, x, b, sums)
}

// A run that is asked to stop between the micro-batches of a step ends after that step, and goes on with the bits of an
// undisturbed run.
func TestStopWhileAccumulating(t *testing.T) {
	const micros = 4
	for _, at := range []int64{2*micros + 1, 2*micros + 2, 3 * micros} { // micro-batches of step 3
		j := newResumable(t, false, false)
		whole := j.config
		whole.OutputDir = filepath.Join(j.dir, "through")
		through, parts := newSink(), newSink()
		j.run(t, whole, 1, 0, through)

		var begun atomic.Int64
		family := llama.Family
		family.New = func(b tensor.Backend, config []byte, positions int) (model.Model, error) {
			m, err := llama.Family.New(b, config, positions)
			return counted{m, func() { begun.Add(1) }}, err
		}
		deps, done := j.alone(t, parts)
		deps.Registry = model.Registry{family}
		deps.Stop = func() bool { return begun.Load() >= at }
		r, err := train.Open(context.Background(), j.config, deps)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(r.Train(context.Background()), r.Close())
		done()
		if !errors.Is(err, train.ErrStopped) || !strings.Contains(err.Error(), "at step 3 of 11") || begun.Load() != 3*micros {
			t.Fatalf("asked in micro-batch %d: %v after %d", at, err, begun.Load())
		}
		c := j.config
		c.Resume = "auto"
		j.run(t, c, 1, 0, parts)
		j.sameAs(t, c, whole, parts, through)
	}
}

// Every optimizer, schedule and way to form rows goes on exactly; TestResumeIsExact has other worlds, strategies,
// precisions and directories of state.
func TestEverythingResumesExactly(t *testing.T) {
	schedules := []string{"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_restarts", "polynomial", "inverse_sqrt", "wsd", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"}
	optimizers := optim.Config{}.Choices()
	for i := range max(len(optimizers), len(schedules)) {
		optimizer, schedule := optimizers[i%len(optimizers)], schedules[i%len(schedules)]
		t.Run(optimizer+", "+schedule, func(t *testing.T) {
			j := newResumable(t, i%3 == 0, i%4 == 1)
			c := &j.config.Training
			c.Optimizer, c.LRScheduler = optim.Config{"name": optimizer}, schedule
			if optimizer == "adamw_8bit" {
				c.Optimizer["min_8bit_size"] = 100.0
			}
			if schedule == "wsd" {
				c.LRDecaySteps = 5
			}
			if i%2 == 0 {
				c.EMA = optim.EMA{Decay: 0.9, UseWarmup: true}
			}
			if i%3 == 2 {
				j.packText(t)
			}
			j.config.Data.DropLast, j.config.Data.Shuffle = i%3 == 1, i%5 != 4
			whole, through, parts := j.config, newSink(), newSink()
			whole.OutputDir = filepath.Join(j.dir, "through")
			j.run(t, whole, 1, 0, through)
			cut, part := 1+i%7, j.config
			part.Checkpoint.SaveEveryNSteps = cut
			j.run(t, part, 1, int64(cut), parts)
			part.Resume = "auto"
			j.run(t, part, 2, 0, parts)
			j.sameAs(t, part, whole, parts, through)
		})
	}
}

// packText replaces the data by text, whose documents are packed.
func (j *resumable) packText(t *testing.T) {
	t.Helper()
	dir := filepath.Join(j.dir, "tokenizer")
	vocab, text := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", ""
	for i := range 30 {
		vocab += fmt.Sprintf("w%d\n", i)
	}
	for i := range 60 {
		var words []string
		for k := range 3 + i%11 {
			words = append(words, fmt.Sprint("w", (7*i+5*k)%30))
		}
		text += fmt.Sprintf("{\"text\": %q}\n", strings.Join(words, " "))
	}
	j.config.Data.Path, j.config.Data.Tokenizer = filepath.Join(j.dir, "text.jsonl"), dir
	j.config.Data.CacheDir, j.config.Data.DocumentMask = filepath.Join(j.dir, "cache"), true
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		j.config.Data.Path: text, filepath.Join(dir, "vocab.txt"): vocab,
		filepath.Join(dir, "tokenizer_config.json"): `{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A checkpoint names the kind of machine, and a resume on another one says that bits may differ. It loads all the
// same.
func TestResumeOnAnotherMachine(t *testing.T) {
	if impl.Best() == impl.Generic {
		t.Skip("SKIPPED: this processor has one instruction set")
	}
	j := newResumable(t, false, false)
	c := j.config
	c.Training.MaxSteps, c.Checkpoint.SaveEveryNSteps, c.Resume = 4, 1, "auto"
	c.Device.Float32Matmul = device.Highest
	note := func(k *recordingSink) string {
		i := slices.IndexFunc(k.notes, func(n string) bool { return strings.HasPrefix(n, "changed: the machine") })
		if i < 0 {
			return ""
		}
		return k.notes[i]
	}
	first, same, other := newSink(), newSink(), newSink()
	j.run(t, c, 1, 1, first)
	j.run(t, c, 1, 2, same)
	restore := impl.Use(impl.Generic)
	j.run(t, c, 1, 3, other)
	restore()
	if got := note(first) + note(same); got != "" {
		t.Errorf("on the same machine: %s", got)
	}
	want := fmt.Sprintf("changed: the machine, cpu %v -> cpu generic: ", impl.Best())
	if got := note(other); !strings.HasPrefix(got, want) || !strings.Contains(got, "may have other bits") {
		t.Errorf("%q, want %s", got, want)
	}
	back := newSink()
	j.run(t, c, 1, 0, back)
	if got := note(back); !strings.HasPrefix(got, fmt.Sprintf("changed: the machine, cpu generic -> cpu %v: ", impl.Best())) {
		t.Errorf("back: %q", got)
	}
}
