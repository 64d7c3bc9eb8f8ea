package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/internal/objectstore"
	"trireme/monitor"
)

func newCheckpointLs() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls [DIR...]",
		Short: "list checkpoints with their size, ranks, evaluation and digest",
		Long: `List the checkpoints of runs, or in directories, newest first. Without DIR, those of the runs below
runs and out, or else the working directory.

A checkpoint is listed as ok if its commit record, manifest and file headers are valid; "trireme
checkpoint verify" also reads all tensors. "best" is the best evaluation of the run among those
with a checkpoint. The digest is the SHA-256 of the manifest, which has a checksum of all other bytes.`,
		Example: `  trireme checkpoint ls
  trireme checkpoint ls runs/sft-1 --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			rows, err := listCheckpoints(args)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), struct {
					Schema      string          `json:"schema"`
					Checkpoints []checkpointRow `json:"checkpoints"`
				}{"trireme.checkpoint.ls/1", rows})
			}
			return printCheckpoints(c.OutOrStdout(), rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func listCheckpoints(args []string) ([]checkpointRow, error) {
	if len(args) == 0 {
		runs, err := findRuns(nil)
		if err != nil {
			return nil, err
		}
		args = runs
	}
	rows := []checkpointRow{}
	for _, name := range args {
		name, step := objectstore.Clean(name), ""
		if checkpoint.Is(name) {
			step, name = name, objectstore.Dir(name)
		}
		s, err := readSaved(name)
		if err != nil {
			return nil, err
		}
		if step != "" {
			s.rows = slices.DeleteFunc(s.rows, func(r checkpointRow) bool { return r.Path != step })
		}
		rows = append(rows, s.rows...)
	}
	return rows, nil
}

func printCheckpoints(w io.Writer, rows []checkpointRow) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no checkpoints")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "checkpoint\tstep\tsaved\tsize\tranks\tstrategy\teval\tdigest\tstate")
	for _, r := range rows {
		saved, digest, state := "-", "-", "ok"
		if r.Saved != nil {
			saved, digest = r.Saved.Local().Format("2006-01-02 15:04"), r.Digest[:12]
		}
		if r.Best {
			state = "ok, best"
		}
		if r.Error != "" {
			state = r.Error
		}
		fmt.Fprintln(t, escapeCells([]string{r.Path, fmt.Sprint(r.Step), saved, monitor.Bytes(r.Bytes), fmt.Sprint(r.WorldSize), orUnset(r.Strategy), orDash(r.EvalLoss), digest, state}))
	}
	return t.Flush()
}
