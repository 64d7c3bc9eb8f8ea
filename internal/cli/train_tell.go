package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"trireme/internal/bench"
	"trireme/monitor"
	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

// tell says what came of a run that is done: planned beside measured memory, and, where there
// is a tokenizer, a sample.
func (j *job) tell(ctx context.Context, w io.Writer) error {
	ranks, err := j.readMemory()
	if err != nil {
		return err
	}
	plan, err := j.plan(ctx)
	if err != nil {
		return err
	}
	if ranks[0].Total > 0 { // steps were made
		if err := tellMemory(w, plan, ranks); err != nil {
			return err
		}
	}
	final := filepath.Join(j.cfg.OutputDir, finalName)
	if j.recipe != nil {
		if err := j.recipe.Show(ctx, w, families, final); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "model: %s   records: %s\n", final, filepath.Join(j.cfg.OutputDir, metricsName))
	return err
}

// readMemory is what the ranks measured.
func (j *job) readMemory() ([]train.RankMemory, error) {
	b, err := os.ReadFile(filepath.Join(j.cfg.OutputDir, memoryName))
	if err != nil {
		return nil, err
	}
	var ranks []train.RankMemory
	if err := json.Unmarshal(b, &ranks); err != nil {
		return nil, fmt.Errorf("%s: %w", memoryName, err)
	}
	if len(ranks) != j.summary.Ranks {
		return nil, fmt.Errorf("%s: %d ranks, not %d", memoryName, len(ranks), j.summary.Ranks)
	}
	return ranks, nil
}

func tellMemory(w io.Writer, plan planner.Plan, ranks []train.RankMemory) error {
	fmt.Fprintln(w, "\nmost memory at one time, by what it is for:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\tplanned\t")
	for _, r := range ranks {
		fmt.Fprintf(t, "rank %d\t", r.Rank)
	}
	fmt.Fprintln(t)
	row := func(name string, plan int64, of func(train.RankMemory) int64) {
		fmt.Fprintf(t, "%s\t%s\t", name, monitor.Bytes(plan))
		for _, r := range ranks {
			fmt.Fprintf(t, "%s\t", monitor.Bytes(of(r)))
		}
		fmt.Fprintln(t)
	}
	for c := range tensor.NumCategories {
		row(c.String(), plan.Memory.Peak[c], func(r train.RankMemory) int64 { return r.Peak[c.String()] })
	}
	row("at one moment", plan.Memory.PeakTotal, func(r train.RankMemory) int64 { return r.Total })
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range ranks {
		fmt.Fprintf(w, "rank %d's process was resident with %s, %s of it shared\n", r.Rank, monitor.Bytes(r.Resident), monitor.Bytes(r.Shared))
	}
	return nil
}

// trainReport is --json's object.
type trainReport struct {
	Schema          string             `json:"schema"`
	OutputDir       string             `json:"output_dir"`
	Model           string             `json:"model"`
	Metrics         string             `json:"metrics"`
	Parameters      int64              `json:"parameters"`
	World           int                `json:"world"`
	Strategy        string             `json:"strategy"`
	Steps           int64              `json:"steps"` // the last one's number
	Loss            *float64           `json:"loss"`  // of the last step
	EvalLoss        *float64           `json:"eval_loss"`
	TokensPerSecond float64            `json:"tokens_per_second"` // median of the steps
	Planned         map[string]int64   `json:"planned"`           // bytes of a rank by category, each at its most, and total
	Memory          []train.RankMemory `json:"memory"`            // measured
}

// writeReport is tell for programs.
func (j *job) writeReport(ctx context.Context, w io.Writer) error {
	r := trainReport{
		Schema: "trireme.train/1", OutputDir: j.cfg.OutputDir, Model: filepath.Join(j.cfg.OutputDir, finalName),
		Metrics: filepath.Join(j.cfg.OutputDir, metricsName), Parameters: j.summary.Parameters,
		World: j.summary.Ranks, Strategy: j.summary.Strategy, Planned: map[string]int64{},
	}
	var err error
	if r.Memory, err = j.readMemory(); err != nil {
		return err
	}
	plan, err := j.plan(ctx)
	if err != nil {
		return err
	}
	for c := range tensor.NumCategories {
		r.Planned[c.String()] = plan.Memory.Peak[c]
	}
	r.Planned["total"] = plan.Memory.PeakTotal
	if err := r.readMetrics(); err != nil {
		return err
	}
	return writeJSON(w, r)
}

// readMetrics takes from the run's records what a report has of them.
func (r *trainReport) readMetrics() error {
	f, err := os.Open(r.Metrics)
	if err != nil {
		return err
	}
	defer f.Close()
	var speeds []float64
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		rec, eval, err := monitor.Parse(bytes.TrimSpace(line))
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", r.Metrics, err)
		case eval != nil:
			r.EvalLoss = finite(eval.Loss)
		default:
			r.Steps, r.Loss = rec.Step, finite(rec.Loss)
			speeds = append(speeds, rec.TokensPerSecond())
		}
	}
	r.TokensPerSecond = bench.Median(speeds)
	return nil
}

// finite is v, or nil where JSON has no number for it.
func finite(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}
