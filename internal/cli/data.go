package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/view"
	"trireme/monitor"
	"trireme/rendezvous"
	"trireme/train"
)

func newData() *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "show training data as the model gets it",
		Example: `  trireme data show --config run.yaml -n 3
  trireme data show --model DIR --data train.jsonl --json`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(newDataShow())
	return c
}

type dataFlags struct {
	trainFlags
	n, from int
	step    int64
}

func newDataShow() *cobra.Command {
	f := &dataFlags{}
	c := &cobra.Command{
		Use:   "show",
		Short: "print decoded rows with label tokens marked, and a summary",
		Long: `Print rows of the data that train would use with the same flags, decoded from their tokens, with
label tokens marked, and a summary of all rows. --step shows the rows of a step of a run whose steps all
have -n rows.`,
		Example: `  trireme data show --config run.yaml -n 3
  trireme data show --config runs/sft-1/config.yaml --step 240 -n 8
  trireme data show --model DIR --data train.jsonl`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	f.addConfigFlags(p)
	p.Var(&f.nproc, "nproc", "`N` ranks, for a file whose batch size depends on them")
	p.IntVarP(&f.n, "rows", "n", 3, "number of rows")
	p.IntVar(&f.from, "from", 0, "first `ROW`, from 0 in the order of the files")
	p.Int64Var(&f.step, "step", 0, "the rows that step `STEP`, from 1, trains on; -n is the number of rows per step")
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

type dataReport struct {
	Schema      string              `json:"schema,omitempty"`
	Path        string              `json:"path"`
	Format      string              `json:"format"`
	Rows        int                 `json:"rows"`
	Eval        int                 `json:"eval_rows"`
	Length      int                 `json:"sequence_length"`
	Tokens      int64               `json:"tokens"`
	Examined    int                 `json:"looked_rows"` // that the next two refer to
	LabelTokens int64               `json:"learned"`     // tokens
	Empty       int                 `json:"empty_rows"`  // without labels
	Truncated   int                 `json:"cut_rows"`    // truncated
	Dropped     int                 `json:"barren_rows"` // dropped: without labels
	Notes       []string            `json:"notes,omitempty"`
	Shown       *[]train.PreviewRow `json:"shown,omitempty"`
}

func (j *job) dataReport(s *train.DataSummary) dataReport {
	return dataReport{
		Path: j.named("data.path"), Format: s.Format, Rows: s.Rows, Eval: s.EvalRows, Length: s.SequenceLength,
		Tokens: s.Tokens, Examined: s.SampledRows, LabelTokens: s.LabelTokens, Empty: s.Unlabeled, Truncated: s.Truncated, Dropped: s.Dropped, Notes: j.noteTexts(s.Notes),
	}
}

func (f *dataFlags) run(c *cobra.Command) error {
	if f.n < 0 {
		return usage(fmt.Sprintf("-n is %d: it must not be negative", f.n), "")
	}
	switch {
	case f.step < 0 || f.step == 0 && c.Flags().Changed("step"):
		return usage(fmt.Sprintf("--step is %d: steps begin with 1", f.step), "--step 1")
	case f.step > 0 && f.n < 1:
		return usage("--step needs the number of rows per step", "-n ROWS")
	case f.step > 0 && f.from != 0:
		return usage("--step and --from exclude each other", "one of them")
	}
	env := rendezvous.Single()
	j, err := f.job(c, env)
	if err != nil {
		return err
	}
	ctx, stdout, stderr := c.Context(), c.OutOrStdout(), c.ErrOrStderr()
	if err := j.locate(ctx, env, stderr); err != nil {
		return err
	}
	if j.recipe != nil {
		if err := j.recipe.Prepare(ctx, stderr); err != nil {
			return err
		}
	}
	if j.model == nil {
		if j.model, err = j.readModel(); err != nil {
			return &Exit{CodeUsage, err}
		}
	}
	t := newTokenizing(stderr, j.dataName())
	contents, rows, err := train.Preview(ctx, j.cfg, j.model, f.from, f.step, f.n, t.report)
	t.close()
	if contents == nil {
		return err
	}
	if f.json {
		r := j.dataReport(contents)
		r.Schema, r.Shown = "trireme.data/1", &rows
		return errors.Join(err, writeJSON(stdout, r))
	}
	p := &rowPrinter{w: stdout, begin: "«", end: "»"}
	if file, ok := monitor.UnderlyingFile(stdout); ok {
		if t, ok := view.OpenTerminal(file, os.LookupEnv); ok && t.Color {
			p.w, p.begin, p.end = file, "\x1b[32m", "\x1b[0m"
		} else if ok && !t.Unicode {
			p.begin, p.end = "<<", ">>"
		}
	}
	for _, row := range rows {
		p.row(row)
	}
	return errors.Join(err, j.printData(stdout, contents), printNotes(stdout, j.noteTexts(contents.Notes)))
}

type rowPrinter struct {
	w          io.Writer
	begin, end string // around label tokens
}

func (p *rowPrinter) row(r train.PreviewRow) {
	labels := number(r.LabelTokens, "label token")
	if r.Label != nil {
		labels = "label " + *r.Label
		if r.LabelTokens == 0 {
			labels += ", which is not trained on"
		}
	}
	fmt.Fprintf(p.w, "row %d, %s: %s, %s\n", r.Row, monitor.EscapeControl(r.Where), number(int64(r.Tokens), "token"), monitor.EscapeControl(labels))
	var b strings.Builder
	for _, s := range r.Spans {
		if s.DocumentStart {
			b.WriteString("\n--- another document ---\n")
		}
		text := monitor.EscapeControl(s.Text)
		if s.Target != "" {
			text = strings.TrimSuffix(text, " ") + " = " + monitor.EscapeControl(s.Target)
		}
		if s.Labeled {
			text = p.begin + text + p.end
		}
		b.WriteString(text)
	}
	for line := range strings.Lines(b.String()) {
		fmt.Fprintf(p.w, "  | %s", line)
	}
	fmt.Fprint(p.w, "\n\n")
}
