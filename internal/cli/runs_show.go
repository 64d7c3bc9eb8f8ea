package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trireme/internal/runlog"
	"trireme/internal/verdict"
	"trireme/monitor"
)

func newRunsShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "show DIR",
		Short:   "show a run: state, last values, verdict and what limits its speed",
		Example: `  trireme runs show runs/sft-1`,
		Args:    oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			run, err := openRun(c.Context(), args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer run.Close()
			row, err := readRow(run)
			if err != nil {
				return err
			}
			v, err := verdict.Of(run)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), struct {
					Schema string `json:"schema"`
					runRow
					Config  map[string]string `json:"config"`
					Verdict verdict.Report    `json:"verdict"`
				}{"trireme.runs.show/1", row, run.Config(), v})
			}
			return printRun(c.OutOrStdout(), run, row, v)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// ofSteps formats a step of a run whose number of steps may be unknown.
func ofSteps(step, steps int64) string {
	if steps == 0 {
		return fmt.Sprint(step)
	}
	return fmt.Sprintf("%d of %d", step, steps)
}

// oneRun checks that the argument is one directory.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s needs the directory of one run, not %d", c.CommandPath(), len(args)), "trireme runs ls")
	}
	return nil
}

func printRun(w io.Writer, run *runlog.Run, row runRow, v verdict.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, monitor.EscapeControl(fmt.Sprintf(format, args...)))
	}
	line("run", "%s (%s)", row.Dir, row.Name)
	line("state", "%s, step %s", row.State, ofSteps(row.Step, row.MaxSteps))
	if row.Started != nil {
		line("started", "%s: %s", row.Started.Local().Format("2006-01-02 15:04"), strings.Join(run.Card().Command, " "))
	}
	if row.Parameters > 0 {
		line("model", "%d parameters on %s, %s", row.Parameters, number(int64(row.World), "rank"), row.Strategy)
	}
	for _, m := range []string{"loss", "eval_loss", "grad_norm", "lr", "tokens_per_second", "mfu", "step_seconds", "rss"} {
		if s := run.Summary(m); s.Count > 0 {
			line(m, "%s (min %s, max %s)", metricText(m, s.Last), metricText(m, s.Min), metricText(m, s.Max))
		}
	}
	saved, err := run.Checkpoints()
	if err != nil {
		return err
	}
	if n := len(saved); n > 0 {
		line("checkpoints", "%d, the last at step %d (%s)", n, saved[n-1].Step, monitor.Bytes(saved[n-1].Bytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printReport(w, v, math.MaxInt)
}

func metricText(metric string, v float64) string {
	switch {
	case metric == "rss" || strings.Contains(metric, "memory") || strings.Contains(metric, "disk_free"):
		return monitor.Bytes(int64(v))
	case metric == "mfu" || strings.HasSuffix(metric, "_fraction"):
		return fmt.Sprintf("%.1f%%", 100*v)
	}
	return fmt.Sprintf("%.6g", v)
}

// printReport prints a verdict in up to n lines.
func printReport(w io.Writer, v verdict.Report, n int) error {
	var lines []string
	lines = append(lines, fmt.Sprintf("verdict: %s", v.Health))
	for _, f := range v.Findings {
		text := fmt.Sprintf("%s: %s", f.Severity, f.Text)
		if try := tryText(f); try != "" {
			text += ". try: " + try
		}
		lines = append(lines, text)
	}
	if v.Speed.Text != "" && v.Speed.Limit == "compute" {
		lines = append(lines, "speed: "+v.Speed.Text)
	}
	for _, l := range lines[:min(n, len(lines))] {
		if _, err := fmt.Fprintln(w, monitor.EscapeControl(l)); err != nil {
			return err
		}
	}
	return nil
}

// tryText lists the suggestions of a finding.
func tryText(f verdict.Finding) string {
	var out []string
	for _, s := range f.Try {
		out = append(out, asFlag(s))
	}
	if f.Advice != "" {
		out = append(out, f.Advice)
	}
	return strings.Join(out, ", ")
}

// printVerdict prints the worst findings of a run in up to three lines; nothing if it is healthy.
func printVerdict(w io.Writer, dir string) error {
	run, err := runlog.Open(dir)
	if err != nil {
		return err
	}
	defer run.Close()
	v, err := verdict.Of(run)
	if err != nil {
		return err
	}
	v.Findings = slices.DeleteFunc(v.Findings, func(f verdict.Finding) bool { return f.Severity == verdict.Info })
	if len(v.Findings) == 0 {
		return nil
	}
	v.Speed = verdict.Speed{}
	return printReport(w, v, 3)
}
