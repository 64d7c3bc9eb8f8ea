package train_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/device"
	"trireme/internal/backend/record"
	"trireme/monitor"
	"trireme/tensor"
	"trireme/train"
)

// programDevice replays each program as soon as it is recorded.
type programDevice struct {
	*record.Backend
	cpu   device.Device
	steps int  // programs with results, which end a step or an evaluation
	ends  bool // the program that is being recorded is one
	fail  int  // the results of this step are an error; 0 is none
	all   []tensor.Compilation
}

func (d *programDevice) Compile(last bool, f func() error) error {
	d.ends = false
	p, err := d.Record(last, f)
	if err != nil {
		return err
	}
	if d.ends {
		d.steps++
	}
	d.all = append(d.all, tensor.Compilation{Seconds: 0.5, PeakBytes: int64(len(d.all)+1) << 20})
	return d.Replay(context.Background(), p.Program, p)
}

func (d *programDevice) Async() bool { return true }

func (d *programDevice) Compiled() []tensor.Compilation { return d.all }

func (d *programDevice) DownloadAsync(src *tensor.Tensor) func() []byte {
	result := d.Backend.DownloadAsync(src)
	d.ends = true
	if d.steps+1 == d.fail {
		return func() []byte { panic(errors.New("the card fell off the bus")) }
	}
	return result
}

func (d *programDevice) Close() error { return d.cpu.Close() }

// aheadSink also stores how many steps were enqueued when a record arrived.
type aheadSink struct {
	recordingSink
	d     *programDevice
	ahead []int
}

func (k *aheadSink) Record(r monitor.Record) error {
	k.ahead = append(k.ahead, k.d.steps-len(k.evals)-int(r.Step-k.begun[len(k.begun)-1])) // besides this one
	return k.recordingSink.Record(r)
}

func (k *aheadSink) sink(resumed int64) (monitor.Sink, error) {
	k.begun = append(k.begun, resumed)
	return k, nil
}

// onPrograms trains on a device that compiles programs. stop is asked before each step.
func (j *resumable) onPrograms(t *testing.T, c train.Config, fail int, stop func() bool) (*aheadSink, error) {
	t.Helper()
	cpu, err := device.Open("cpu", device.Options{Reserve: 1 << 28, Float32Matmul: c.Device.Float32Matmul})
	if err != nil {
		t.Fatal(err)
	}
	d := &programDevice{Backend: record.New(cpu), cpu: cpu, fail: fail}
	k := &aheadSink{recordingSink: recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}, d: d}
	deps, done := j.alone(t, nil)
	defer done()
	deps.Sink, deps.Stop = k.sink, stop
	r, err := train.Open(context.Background(), c, deps.WithDevice(d))
	if err != nil {
		t.Fatal(err)
	}
	return k, errors.Join(r.Train(context.Background()), r.Close())
}

// On a device that compiles programs, Train enqueues the next step before it reads a result, unless an
// evaluation or a checkpoint is due. Records, evaluations and checkpoints have the bits of cpu.
func TestStepsInFlight(t *testing.T) {
	for _, poison := range []bool{false, true} {
		j := newResumable(t, false, poison)
		c := j.config
		c.Training.EvalEveryNSteps, c.Checkpoint.SaveEveryNSteps, c.Training.MicroBatchSize = 4, 6, 2
		want := &recordingSink{steps: map[int64]string{}, evals: map[int64]string{}}
		c.OutputDir = filepath.Join(j.dir, "cpu")
		j.run(t, c, 1, 0, want)
		c.OutputDir = filepath.Join(j.dir, "programs")
		got, err := j.onPrograms(t, c, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ahead := []int{1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0}; !slices.Equal(got.ahead, ahead) {
			t.Errorf("steps in flight at each record: %v, want %v", got.ahead, ahead)
		}
		got.same(t, want)
		for _, step := range []string{"step-6", "step-11"} {
			a, b := state(t, filepath.Join(j.dir, "cpu", "checkpoints", step)), state(t, filepath.Join(j.dir, "programs", "checkpoints", step))
			for name := range a {
				if a[name] != b[name] {
					t.Errorf("%s: %s differs: %q and %q", step, name, a[name], b[name])
				}
			}
		}
		if !slices.ContainsFunc(got.notes, func(n string) bool { return n == "compiled 6 programs in 3.0 s, peak 6.0MiB" }) {
			t.Errorf("no note of the first programs: %q", got.notes)
		}

		// A stop takes effect after the step in flight. The run continues as if it had not been stopped.
		c.OutputDir = filepath.Join(j.dir, "stopped")
		asked := 0
		first, err := j.onPrograms(t, c, 0, func() bool { asked++; return asked == 2 })
		if !errors.Is(err, train.ErrStopped) || len(first.steps) != 3 {
			t.Fatalf("stopped after %d steps: %v", len(first.steps), err)
		}
		c.Resume = "auto"
		then, err := j.onPrograms(t, c, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for step, text := range first.steps {
			then.steps[step] = text
		}
		then.same(t, want)
	}
}

// same compares the records of two runs.
func (k *aheadSink) same(t *testing.T, want *recordingSink) {
	t.Helper()
	if len(k.steps) != len(want.steps) || len(k.evals) != len(want.evals) || k.skips > want.skips {
		t.Errorf("%d steps, %d evaluations, %d skipped; on cpu %d, %d, %d", len(k.steps), len(k.evals), k.skips, len(want.steps), len(want.evals), want.skips)
	}
	for step, text := range want.steps {
		if k.steps[step] != text {
			t.Errorf("step %d: %s, on cpu %s", step, k.steps[step], text)
		}
	}
	for step, text := range want.evals {
		if k.evals[step] != text {
			t.Errorf("evaluation after step %d: %s, on cpu %s", step, k.evals[step], text)
		}
	}
}

// A device that fails ends the run with an error that names the step.
func TestDeviceFails(t *testing.T) {
	j := newResumable(t, false, false)
	j.config.Training.EvalEveryNSteps = 0
	k, err := j.onPrograms(t, j.config, 3, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "rank 0, step 3: the card fell off the bus") || len(k.steps) != 2 {
		t.Errorf("after %d steps: %v", len(k.steps), err)
	}
}
