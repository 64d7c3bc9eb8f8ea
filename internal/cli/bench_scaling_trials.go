package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"trireme/internal/scaling"
	"trireme/monitor"
)

// trials runs trials of a configuration as processes of this program.
type trials struct {
	arguments []string // of train, before those of a trial
	steps     int
	warmup    int
	threads   int // per rank; 0 leaves the configuration's
	temporary string
	stderr    io.Writer
	transport string // of the last trial of several ranks
}

func (f *benchScalingFlags) trials(c *cobra.Command, j *job, largest int) (*trials, error) {
	t := &trials{steps: f.steps, warmup: f.warmup, stderr: c.ErrOrStderr(), transport: "local"}
	t.arguments = []string{"train", "--json", "--resume=none", "--config=" + f.config}
	if f.format != "" {
		t.arguments = append(t.arguments, "--config_format="+f.format)
	}
	for _, s := range f.sets {
		t.arguments = append(t.arguments, "--set="+s)
	}
	for _, s := range []string{"logging.view=never", "logging.tensorboard=false", "training.load_best_model_at_end=false", "training.global_batch_size=0"} {
		t.arguments = append(t.arguments, "--set="+s)
	}
	if !j.cfg.Device.Name.Accelerator() {
		if t.threads = j.cfg.Device.Threads; t.threads == 0 {
			t.threads = max(1, runtime.GOMAXPROCS(0)/largest)
		}
	}
	var err error
	t.temporary, err = os.MkdirTemp("", "trireme-scaling-")
	return t, err
}

// rounds runs all trials of the cells several times.
func (t *trials) rounds(ctx context.Context, cells []scaling.Cell, n int) ([]map[scaling.Trial]scaling.Measurement, error) {
	out := make([]map[scaling.Trial]scaling.Measurement, n)
	for i := range out {
		out[i] = map[scaling.Trial]scaling.Measurement{}
		all := scaling.Trials(cells, i)
		for k, trial := range all {
			m, err := t.measure(ctx, trial)
			if err != nil {
				return nil, err
			}
			out[i][trial] = m
			fmt.Fprintf(t.stderr, "round %d/%d, trial %d/%d: %v: %s tokens/s\n", i+1, n, k+1, len(all), trial, monitor.Thousands(m.TokensPerSecond))
		}
	}
	return out, nil
}

// measure runs a trial, or its copies at the same time.
func (t *trials) measure(ctx context.Context, trial scaling.Trial) (scaling.Measurement, error) {
	jobs, errs := make([]scaling.Measurement, trial.Copies), make([]error, trial.Copies)
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() { jobs[i], errs[i] = t.one(ctx, trial, strconv.Itoa(i)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return scaling.Measurement{}, err
	}
	return scaling.Together(jobs), nil
}

func (t *trials) one(ctx context.Context, trial scaling.Trial, name string) (m scaling.Measurement, err error) {
	dir := filepath.Join(t.temporary, name)
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := append(t.arguments[:len(t.arguments):len(t.arguments)], "--nproc="+strconv.Itoa(trial.World), "--output_dir="+dir, "--max_steps="+strconv.Itoa(t.warmup+t.steps))
	sets := []string{"parallel.strategy=" + trial.Strategy, "precision.param_dtype=" + trial.DType, "training.gradient_accumulation_steps=" + strconv.Itoa(trial.Accumulation)}
	if trial.World == 1 {
		sets = append(sets, "parallel.mesh.replicate=0", "parallel.mesh.shard=0")
	}
	if t.threads > 0 {
		sets = append(sets, "device.threads="+strconv.Itoa(t.threads))
	}
	for _, s := range sets {
		args = append(args, "--set="+s)
	}
	stdout, stderr, err := runTrial(ctx, append(os.Environ(), trialVar+"="+trialMeasured), args)
	if err != nil {
		return m, trialError(ctx, trial, err, stderr)
	}
	var r trainReport
	if err := json.Unmarshal(stdout, &r); err != nil {
		return m, fmt.Errorf("%v: the result of train: %w", trial, err)
	}
	records, err := readRecords(r.Metrics)
	if err != nil {
		return m, err
	}
	if len(records) != t.warmup+t.steps {
		return m, fmt.Errorf("%v: %s has %d steps, not %d", trial, r.Metrics, len(records), t.warmup+t.steps)
	}
	m = scaling.Measure(records, t.warmup)
	for _, rank := range r.Memory {
		m.Memory, m.Resident = max(m.Memory, rank.Total), max(m.Resident, rank.Resident)
	}
	if _, after, ok := strings.Cut(stderr, "started here, over "); ok && trial.World > 1 {
		t.transport, _, _ = strings.Cut(after, "\n")
	}
	return m, nil
}
