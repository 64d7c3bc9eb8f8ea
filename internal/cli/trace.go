package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/durable"
	"trireme/internal/rundir"
	"trireme/internal/tracefile"
	"trireme/internal/tracereport"
	"trireme/internal/tracing"
)

func newTrace() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "see where the time of training steps goes",
		Long: `A trace has the spans of all ranks over a few steps. "trireme train --trace steps=10-12" writes one
below OUTPUT_DIR/trace, and "trireme trace request" asks a job that runs for one. Open the file at
https://ui.perfetto.dev, which reads it in the browser, or see the report here.

The report and convert also read traces of PyTorch's profiler, one file for each rank or a directory
of them.`,
		Example: `  trireme train --trace steps=10-12
  trireme trace report runs/go-source-1/trace
  trireme trace request runs/go-source-1 --steps 3`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(newTraceConvert(), newTraceReport(), newTraceRequest())
	return c
}

// readTrace reads files as one trace. For the directory of a run it reads that of its traces.
func readTrace(paths []string) (*tracefile.Trace, error) {
	paths = slices.Clone(paths)
	for i, p := range paths {
		if traces := filepath.Join(p, tracing.Dir); exists(filepath.Join(p, rundir.Identity)) && exists(traces) {
			paths[i] = traces
		}
	}
	t, err := tracefile.Read(paths...)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return t, nil
}

func newTraceReport() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "report FILE...",
		Short: "print where the time of a step goes, and what it would be worth if that were gone",
		Long: `Print on one screen what the ranks did in the steps of a trace: computation, exposed communication
by operation and group, waiting for other ranks, data, checkpoints, idle time, and the five longest
units; with the time that a step would take without each.

FILE is a trace of Trireme (Perfetto or JSON) or of PyTorch's profiler (JSON), also compressed by gzip,
or a directory of them, or a run's. Several files are parts of one job, one for each rank or for a window of steps.`,
		Example: `  trireme trace report runs/go-source-1/trace/steps-10-12.perfetto-trace
  trireme trace report profiles/rank0.json.gz profiles/rank1.json.gz --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("no trace is named", c.CommandPath()+" DIR/trace/steps-10-12.perfetto-trace")
			}
			t, err := readTrace(args)
			if err != nil {
				return err
			}
			r, err := tracereport.New(t)
			if err != nil {
				return &Exit{CodeUsage, fmt.Errorf("%s: %w", strings.Join(args, ", "), err)}
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), r)
			}
			return r.Print(c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func newTraceConvert() *cobra.Command {
	c := &cobra.Command{
		Use:   "convert FILE... OUTPUT",
		Short: "merge traces into one file, as Perfetto's format or Chrome's JSON",
		Long: `Merge traces into OUTPUT: in Perfetto's format if its name ends in .perfetto-trace or .pftrace, in
Chrome's JSON if it ends in .json. OUTPUT is replaced. Of traces of PyTorch's profiler it has what the
report reads: steps, kernels or operators, and collectives, with arrows from the last rank.`,
		Example: `  trireme trace convert runs/go-source-1/trace trace.json
  trireme trace convert profiles profiles.perfetto-trace`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("convert needs a trace and an output", c.CommandPath()+" DIR trace.json")
			}
			output := args[len(args)-1]
			for _, in := range args[:len(args)-1] {
				a, err := os.Stat(in)
				b, missing := os.Stat(output)
				if err == nil && missing == nil && os.SameFile(a, b) {
					return usage(output+" is a trace to convert: it would be replaced", c.CommandPath()+" "+in+" converted.json")
				}
			}
			t, err := readTrace(args[:len(args)-1])
			if err != nil {
				return err
			}
			write := t.WritePerfetto
			switch filepath.Ext(output) {
			case ".json":
				write = t.WriteChrome
			case ".perfetto-trace", ".pftrace":
			default:
				return usage(output+" does not end in .json, .perfetto-trace or .pftrace", c.CommandPath()+" ... trace.json")
			}
			return durable.Replace(output, 0o644, func(f *os.File) error { return write(io.Writer(f)) })
		},
	}
	return c
}

func newTraceRequest() *cobra.Command {
	steps, format := 3, "perfetto"
	c := &cobra.Command{
		Use:   "request DIR",
		Short: "ask the job that runs in a directory for a trace of its next steps",
		Long: `Ask a job for a trace of its next steps, by the file ` + tracing.Request + ` in the directory of its run, which rank 0
looks for each second. The trace is written below DIR/trace after the steps.`,
		Example: "  trireme trace request runs/go-source-1 --steps 5",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one directory of a run", c.CommandPath()+" runs/NAME-1")
			}
			text := fmt.Sprintf("steps=%d,format=%s", steps, format)
			if _, err := tracing.ParseWindow(text, true); err != nil {
				return usage(err.Error(), c.CommandPath()+" "+args[0]+" --steps 3")
			}
			if _, err := os.Stat(filepath.Join(args[0], rundir.Identity)); err != nil {
				return usage(fmt.Sprintf("%s is not the directory of a run: it has no %s", args[0], rundir.Identity), c.CommandPath()+" runs/NAME-1")
			}
			if err := durable.WriteFile(filepath.Join(args[0], tracing.Request), []byte(text+"\n")); err != nil {
				return err
			}
			if _, held := rundir.Holder(args[0]); !held {
				_, err := fmt.Fprintf(c.ErrOrStderr(), "no job runs in %s now; its next start writes a trace of %s\n", args[0], number(int64(steps), "step"))
				return err
			}
			_, err := fmt.Fprintf(c.ErrOrStderr(), "asked for a trace of %s; the job writes it below %s\n", number(int64(steps), "step"), filepath.Join(args[0], tracing.Dir))
			return err
		},
	}
	c.Flags().IntVar(&steps, "steps", steps, "number of steps")
	c.Flags().StringVar(&format, "format", format, "perfetto, chrome (JSON) or both")
	return c
}
