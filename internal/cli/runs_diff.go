package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trireme/internal/runlog"
	"trireme/monitor"
)

// openRuns opens the runs in directories; close closes them.
func openRuns(c *cobra.Command, dirs []string) (runs []*runlog.Run, close func(), err error) {
	close = func() {
		for _, r := range runs {
			r.Close()
		}
	}
	for _, dir := range dirs {
		run, err := openRun(c.Context(), dir, c.ErrOrStderr())
		if err != nil {
			close()
			return nil, nil, err
		}
		runs = append(runs, run)
	}
	return runs, close, nil
}

type runsDiff struct {
	Schema  string              `json:"schema"`
	Runs    []string            `json:"runs"`
	Config  []runlog.Difference `json:"config"`
	Metrics []metricDiff        `json:"metrics"`
}

type metricDiff struct {
	Metric string     `json:"metric"`
	Last   []*float64 `json:"last"` // of each run; null: none
	Min    []*float64 `json:"min"`
}

// diffMetrics are the metrics that diff shows first.
var diffMetrics = []string{"step", "loss", "eval_loss", "accuracy", "grad_norm", "lr", "tokens_total", "tokens_per_second", "step_seconds", "mfu", "comm_fraction", "data_fraction", "rss", "memory_peak.total"}

func newRunsDiff() *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "diff DIR DIR...",
		Short: "show configuration differences and metrics of runs side by side",
		Example: `  trireme runs diff runs/sft-1 runs/sft-2
  trireme runs diff runs/* --all`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("diff needs the directories of two or more runs", "trireme runs ls")
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		runs, closeAll, err := openRuns(c, args)
		if err != nil {
			return err
		}
		defer closeAll()
		d := runsDiff{Schema: "trireme.runs.diff/1", Runs: args}
		var configs []map[string]string
		metrics := slices.Clone(diffMetrics)
		for _, r := range runs {
			configs = append(configs, r.Config())
			if all {
				metrics = append(metrics, r.Metrics()...)
			}
		}
		d.Config = runlog.DiffConfig(configs...)
		seen := map[string]bool{}
		for _, m := range metrics {
			if seen[m] {
				continue
			}
			seen[m] = true
			row, any := metricDiff{Metric: m}, false
			for _, r := range runs {
				s := r.Summary(m)
				any = any || s.Count > 0
				row.Last, row.Min = append(row.Last, finite(s.Last)), append(row.Min, finite(s.Min))
			}
			if any {
				d.Metrics = append(d.Metrics, row)
			}
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), d)
		}
		return d.print(c.OutOrStdout())
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&all, "all", false, "show all metrics")
	return c
}

func (d runsDiff) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, escapeCells(append([]string{"configuration"}, d.Runs...)))
	for _, k := range d.Config {
		cells := []string{k.Key}
		for _, v := range k.Values {
			cells = append(cells, orUnset(v))
		}
		fmt.Fprintln(t, escapeCells(cells))
	}
	if len(d.Config) == 0 {
		fmt.Fprintln(t, "no differences")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, escapeCells(append([]string{"last value (min)"}, d.Runs...)))
	for _, m := range d.Metrics {
		cells := []string{m.Metric}
		for i, v := range m.Last {
			switch {
			case v == nil:
				cells = append(cells, "-")
			case m.Metric == "loss" || m.Metric == "eval_loss":
				cells = append(cells, fmt.Sprintf("%s (%s)", metricText(m.Metric, *v), metricText(m.Metric, *m.Min[i])))
			default:
				cells = append(cells, metricText(m.Metric, *v))
			}
		}
		fmt.Fprintln(t, escapeCells(cells))
	}
	return t.Flush()
}

func orUnset(v string) string {
	if v == "" {
		return "-"
	}
	return monitor.EscapeControl(v)
}
