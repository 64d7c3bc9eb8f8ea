package cli

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/durable"
	"trireme/internal/reportcard"
	"trireme/monitor"
)

type runsPlotFlags struct {
	metric, svg string
	from, to    int64
	log         bool
}

func newRunsPlot() *cobra.Command {
	f := &runsPlotFlags{}
	c := &cobra.Command{
		Use:   "plot DIR...",
		Short: "draw a metric of runs in the terminal, and as SVG",
		Example: `  trireme runs plot runs/sft-1
  trireme runs plot runs/sft-1 runs/sft-2 --metric eval_loss --svg eval.svg`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("plot needs the directories of runs", "trireme runs ls")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	p := c.Flags()
	p.StringVar(&f.metric, "metric", "loss", "draw `NAME`")
	p.StringVar(&f.svg, "svg", "", "also write `FILE`")
	p.Int64Var(&f.from, "from", 0, "first `STEP`")
	p.Int64Var(&f.to, "to", 0, "last `STEP`; 0: the last of the run")
	p.BoolVar(&f.log, "log", false, "a logarithmic axis, if all values are positive")
	return c
}

func (f *runsPlotFlags) run(c *cobra.Command, args []string) error {
	runs, closeAll, err := openRuns(c, args)
	if err != nil {
		return err
	}
	defer closeAll()
	known := newKnownNames()
	for _, r := range runs {
		known.add(r)
	}
	if err := known.checkMetric(f.metric, args); err != nil {
		return err
	}
	var lines []reportcard.Line
	for _, r := range runs {
		s, err := r.Series(f.metric, f.from, f.to, 800)
		if err != nil {
			return err
		}
		if len(s.Buckets) > 0 {
			lines = append(lines, reportcard.Line{Name: r.Dir(), Buckets: s.Buckets})
		}
	}
	if len(lines) == 0 {
		return usage(fmt.Sprintf("no run has %s in these steps", f.metric), "other values of --from and --to")
	}
	if f.svg != "" {
		if err := durable.WriteFile(f.svg, []byte(reportcard.SVG(f.metric, lines, f.log))); err != nil {
			return err
		}
	}
	return drawLines(c.OutOrStdout(), f.metric, lines, f.log)
}

// Size of a chart in the terminal, in characters.
const (
	plotColumns = 72
	plotRows    = 16
)

// plotMarks are the marks of runs.
const plotMarks = "*+ox#@%&"

// drawLines draws curves as text: the mean of each column of steps.
func drawLines(w io.Writer, metric string, lines []reportcard.Line, logarithmic bool) error {
	first, last, low, high := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, b := range l.Buckets {
			if b.Count > 0 {
				first, last, low, high = min(first, float64(b.Step)), max(last, float64(b.LastStep)), min(low, b.Mean), max(high, b.Mean)
			}
		}
	}
	if first > last {
		_, err := fmt.Fprintf(w, "%s: no finite value\n", monitor.EscapeControl(metric))
		return err
	}
	scale := func(v float64) float64 { return v }
	if logarithmic && low > 0 {
		scale = math.Log
	}
	grid := make([][]byte, plotRows)
	for i := range grid {
		grid[i] = []byte(strings.Repeat(" ", plotColumns))
	}
	for i, l := range lines {
		for _, b := range l.Buckets {
			if b.Count == 0 {
				continue
			}
			x, y := 0, plotRows/2
			if last > first {
				x = int((float64(b.Step+b.LastStep)/2 - first) / (last - first) * (plotColumns - 1))
			}
			if high > low {
				y = int(math.Round((scale(high) - scale(b.Mean)) / (scale(high) - scale(low)) * (plotRows - 1)))
			}
			grid[y][x] = plotMarks[i%len(plotMarks)]
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", monitor.EscapeControl(metric))
	for i, row := range grid {
		label := ""
		switch i {
		case 0:
			label = fmt.Sprintf("%.5g", high)
		case plotRows - 1:
			label = fmt.Sprintf("%.5g", low)
		}
		fmt.Fprintf(&out, "%10s |%s\n", label, strings.TrimRight(string(row), " "))
	}
	fmt.Fprintf(&out, "%10s +%s\n%12s%-*.0f%.0f\n", "", strings.Repeat("-", plotColumns), "", plotColumns-len(fmt.Sprintf("%.0f", last)), first, last)
	for i, l := range lines {
		fmt.Fprintf(&out, "  %c %s\n", plotMarks[i%len(plotMarks)], monitor.EscapeControl(l.Name))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// dirSize sums the files in a directory.
func dirSize(dir string) (size int64, files int) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				size, files = size+st.Size(), files+1
			}
		}
		return nil
	})
	return size, files
}
