package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"trireme/monitor"
	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

// plan is what one rank of the job needs.
func (j *job) plan(ctx context.Context, nproc int) (planner.Plan, error) {
	accum, err := j.cfg.Training.Accumulation(nproc)
	if err != nil {
		return planner.Plan{}, err
	}
	t := j.cfg.Data.SequenceLength
	if t == 0 {
		return planner.Plan{}, fmt.Errorf("a plan needs data.sequence_length")
	}
	return planner.Job{
		Model: j.model, SequenceLength: t, MicroBatchSize: j.cfg.Training.MicroBatchSize, Accumulation: accum,
		Ranks: nproc, Parallel: j.cfg.Parallel, Prepare: j.cfg.Prepare, Documents: j.cfg.Data.DocumentMask,
	}.Run(ctx, 0)
}

// printPlan says what the job would need.
func (j *job) printPlan(ctx context.Context, w io.Writer, nproc int) error {
	p, err := j.plan(ctx, nproc)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	fmt.Fprintf(w, "%d parameters, %d ranks, %s. planned for each rank:\n", p.Parameters, nproc, j.cfg.Parallel.Strategy)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for c := range tensor.NumCategories {
		fmt.Fprintf(t, "%s\t%s\t\n", c, monitor.Bytes(p.Memory.Peak[c]))
	}
	fmt.Fprintf(t, "at one moment\t%s\t\n", monitor.Bytes(p.Memory.PeakTotal))
	return t.Flush()
}

// tell says what came of a run that is done: planned beside measured memory, and, where there
// is a tokenizer, a sample.
func (j *job) tell(ctx context.Context, w io.Writer, nproc int) error {
	if err := j.tellMemory(ctx, w, nproc); err != nil {
		return err
	}
	final := filepath.Join(j.cfg.OutputDir, finalName)
	if j.recipe != nil {
		if err := j.recipe.Show(ctx, w, families, final); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "model: %s   records: %s\n", final, filepath.Join(j.cfg.OutputDir, metricsName))
	return nil
}

func (j *job) tellMemory(ctx context.Context, w io.Writer, nproc int) error {
	b, err := os.ReadFile(filepath.Join(j.cfg.OutputDir, memoryName))
	if err != nil {
		return err
	}
	var ranks []train.RankMemory
	if err := json.Unmarshal(b, &ranks); err != nil {
		return fmt.Errorf("%s: %w", memoryName, err)
	}
	plan, err := j.plan(ctx, nproc)
	planned := err == nil
	fmt.Fprintln(w, "\nmost memory at one time, by what it is for:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\t")
	if planned {
		fmt.Fprint(t, "planned\t")
	}
	for _, r := range ranks {
		fmt.Fprintf(t, "rank %d\t", r.Rank)
	}
	fmt.Fprintln(t)
	row := func(name string, plan int64, of func(train.RankMemory) int64) {
		fmt.Fprintf(t, "%s\t", name)
		if planned {
			fmt.Fprintf(t, "%s\t", monitor.Bytes(plan))
		}
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
