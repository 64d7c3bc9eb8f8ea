package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"trireme/monitor"
	"trireme/tensor"
)

// dryRunReport is the JSON output of train --dry_run. Memory is per rank, in bytes.
type dryRunReport struct {
	Schema        string           `json:"schema"`
	Parameters    int64            `json:"parameters"`
	World         int              `json:"world"`
	Strategy      string           `json:"strategy"`
	RowsPerStep   int              `json:"rows_per_step"`
	Steps         int              `json:"steps"`
	StepsPerEpoch int64            `json:"steps_per_epoch"`
	WarmupSteps   int              `json:"warmup_steps"`
	LearningRates []float64        `json:"learning_rates"` // of the first steps
	Data          dataReport       `json:"data"`
	Memory        map[string]int64 `json:"memory"` // peak of each category
	MemoryPeak    int64            `json:"memory_peak"`
	Usual         *usualReport     `json:"usual,omitempty"` // nil if all rows are full
	Notes         []string         `json:"notes,omitempty"`
}

// usualReport is a rank's memory, in bytes, with rows of the mean length. Memory is planned and
// reserved for full rows.
type usualReport struct {
	TokensPerRow float64          `json:"tokens_per_row"`
	Memory       map[string]int64 `json:"memory"`
	MemoryPeak   int64            `json:"memory_peak"`
	FLOPs        float64          `json:"flops"` // of a rank in a step
}

func peaks(m tensor.Usage) map[string]int64 {
	by := map[string]int64{}
	for c := range tensor.NumCategories {
		by[c.String()] = m.Peak[c]
	}
	return by
}

func (j *job) printDryRun(ctx context.Context, w io.Writer, asJSON bool) error {
	if !asJSON {
		if err := j.printStart(w); err != nil {
			return err
		}
	}
	p, err := j.plan(ctx)
	if err != nil {
		return err
	}
	usual, err := j.planUsual(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		s := j.summary
		r := dryRunReport{
			Schema: "trireme.dry_run/1", Parameters: s.Parameters, World: s.Ranks, Strategy: s.Strategy, RowsPerStep: s.RowsPerStep,
			Steps: s.Steps, StepsPerEpoch: s.StepsPerEpoch, WarmupSteps: s.WarmupSteps, LearningRates: s.LearningRates,
			Data: j.dataReport(&s.DataSummary), Memory: peaks(p.Memory), MemoryPeak: p.Memory.PeakTotal, Notes: j.noteTexts(s.Notes),
		}
		if usual != nil {
			r.Usual = &usualReport{j.summary.TokensPerRow(), peaks(usual.Memory), usual.Memory.PeakTotal, usual.FLOPs}
		}
		return writeJSON(w, r)
	}
	fmt.Fprintln(w, "planned memory per rank, peak by category:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, of func(tensor.Usage) int64) {
		fmt.Fprintf(t, "%s\t%s\t", name, monitor.Bytes(of(p.Memory)))
		if usual != nil {
			fmt.Fprintf(t, "%s\t", monitor.Bytes(of(usual.Memory)))
		}
		fmt.Fprintln(t)
	}
	if usual != nil {
		fmt.Fprintf(t, "\trows of %d tokens\tof %.4g\t\n", j.summary.SequenceLength, j.summary.TokensPerRow())
	}
	for c := range tensor.NumCategories {
		row(c.String(), func(m tensor.Usage) int64 { return m.Peak[c] })
	}
	row("total", func(m tensor.Usage) int64 { return m.PeakTotal })
	if err := t.Flush(); err != nil || usual == nil {
		return err
	}
	_, err = fmt.Fprintf(w, "FLOPs per rank and step: %s with rows of %d tokens, %s with rows of %.4g\n", monitor.SI(p.FLOPs), j.summary.SequenceLength, monitor.SI(usual.FLOPs), j.summary.TokensPerRow())
	return err
}
