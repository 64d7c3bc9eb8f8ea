package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/durable"
	"trireme/internal/reportcard"
	"trireme/internal/runlog"
)

func newRunsReport() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "write the report of a run: report.md and report.html, with the verdict and curves",
		Long: `Write report.md (with curves in report/) and report.html (one file) into the run's directory or
--to: the verdict, configuration, curves, time split, memory, checkpoints and environment.`,
		Example: `  trireme runs report runs/sft-1
  trireme runs report runs/sft-1 --to /tmp/report`,
		Args: oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			run, err := openRun(c.Context(), args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer run.Close()
			if to == "" {
				to = args[0]
			}
			files, err := writeReportCard(run, to)
			if errors.Is(err, fs.ErrPermission) {
				return &Problem{Text: err.Error(), Try: "--to another directory", Err: err}
			}
			for _, f := range files {
				fmt.Fprintln(c.OutOrStdout(), f)
			}
			return err
		},
	}
	c.Flags().StringVar(&to, "to", "", "write to `DIR` (default: the run's directory)")
	return c
}

// reportEnd writes the report of a run that has ended. An error is a line: the run is done.
func reportEnd(dir string, stderr io.Writer) {
	run, err := runlog.Open(dir)
	if err == nil {
		_, err = writeReportCard(run, dir)
		err = errors.Join(outputError(err), run.Close())
	}
	if err != nil {
		fmt.Fprintf(stderr, "no report of the run: %v\n", err)
	}
}

// writeReportCard writes the report of a run into a directory and returns the two files.
func writeReportCard(run *runlog.Run, dir string) ([]string, error) {
	card, err := reportcard.Of(run, asFlag, time.Now())
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "report"), 0o755); err != nil {
		return nil, err
	}
	plot := func(i int) string { return fmt.Sprintf("report/%d.svg", i+1) }
	for i, p := range card.Plots {
		if err := durable.WriteFile(filepath.Join(dir, plot(i)), []byte(p.SVG)); err != nil {
			return nil, err
		}
	}
	text, page := filepath.Join(dir, "report.md"), filepath.Join(dir, "report.html")
	err = durable.Replace(text, 0o644, func(f *os.File) error { return card.WriteMarkdown(f, plot) })
	if err == nil {
		err = durable.Replace(page, 0o644, func(f *os.File) error { return card.WriteHTML(f) })
	}
	return []string{text, page}, err
}
