package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"trireme/monitor"
	"trireme/tensor"
)

// dryRunReport is the object of train --dry_run --json. The memory is a rank's, in bytes.
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
	Memory        map[string]int64 `json:"memory"` // the peak of each category
	MemoryPeak    int64            `json:"memory_peak"`
	Notes         []string         `json:"notes,omitempty"` // what is odd and not wrong
}

// dryRun says what the job is and would need.
func (j *job) dryRun(ctx context.Context, w io.Writer, asJSON bool) error {
	if !asJSON {
		if err := j.printStart(w); err != nil {
			return err
		}
	}
	p, err := j.plan(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		s := j.summary
		r := dryRunReport{
			Schema: "trireme.dry_run/1", Parameters: s.Parameters, World: s.Ranks, Strategy: s.Strategy, RowsPerStep: s.RowsPerStep,
			Steps: s.Steps, StepsPerEpoch: s.StepsPerEpoch, WarmupSteps: s.WarmupSteps, LearningRates: s.LearningRates,
			Data: j.dataReport(&s.Contents), Memory: map[string]int64{}, MemoryPeak: p.Memory.PeakTotal, Notes: noteTexts(s.Notes),
		}
		for c := range tensor.NumCategories {
			r.Memory[c.String()] = p.Memory.Peak[c]
		}
		return writeJSON(w, r)
	}
	fmt.Fprintln(w, "planned memory per rank, peak by category:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for c := range tensor.NumCategories {
		fmt.Fprintf(t, "%s\t%s\t\n", c, monitor.Bytes(p.Memory.Peak[c]))
	}
	fmt.Fprintf(t, "total\t%s\t\n", monitor.Bytes(p.Memory.PeakTotal))
	return t.Flush()
}
