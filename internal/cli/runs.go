package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/rundir"
	"trireme/internal/runlog"
	"trireme/monitor"
)

func newRuns() *cobra.Command {
	c := &cobra.Command{
		Use:   "runs",
		Short: "list, compare, judge, plot, export and remove runs",
		Example: `  trireme runs ls
  trireme runs ls --where 'training.learning_rate<1e-4 and loss<2.0' --sort eval_loss
  trireme runs show runs/sft-1
  trireme runs diff runs/sft-1 runs/sft-2
  trireme runs plot runs/sft-1 runs/sft-2 --metric loss --svg loss.svg
  trireme runs report runs/sft-1
  trireme runs export runs/sft-1 --select 'step, loss' --to loss.csv
  trireme runs rm runs/sft-1 --dry-run`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(newRunsLs(), newRunsShow(), newRunsDiff(), newRunsPlot(), newRunsReport(), newRunsExport(), newRunsRm())
	return c
}

// runsDepth is the number of directory levels below an argument in which runs are looked for.
const runsDepth = 4

// findRuns returns the runs in directories and below them; without directories, below runs and out, or else the working
// directory.
func findRuns(dirs []string) (out []string, err error) {
	if len(dirs) == 0 {
		for _, d := range []string{runsDir, "out"} {
			if exists(d) {
				dirs = append(dirs, d)
			}
		}
		if len(dirs) == 0 {
			dirs = []string{"."}
		}
	}
	for _, dir := range dirs {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return nil, usage(dir+" is not a directory", "the directory of a run, or one above")
		}
		root := filepath.Clean(dir)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // a directory that cannot be read has no run for this user
			}
			if runlog.Is(path) {
				out = append(out, path)
				return fs.SkipDir
			}
			rel, _ := filepath.Rel(root, path)
			if strings.Count(rel, string(filepath.Separator)) >= runsDepth || path != root && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// openRun opens a run and shows progress on stderr if its records are not indexed.
func openRun(ctx context.Context, dir string, stderr io.Writer) (*runlog.Run, error) {
	began, shown := time.Now(), time.Time{}
	run, err := runlog.OpenWith(ctx, dir, runlog.Options{Progress: func(done, total int64) {
		if time.Since(began) > time.Second && time.Since(shown) > time.Second/2 {
			shown = time.Now()
			fmt.Fprintf(stderr, "%s: reading %s of %s\n", dir, monitor.Bytes(done), monitor.Bytes(total))
		}
	}})
	if err != nil && ctx.Err() == nil {
		err = &Exit{CodeUsage, err}
	}
	return run, err
}

// runRow is a run in a list.
type runRow struct {
	Dir        string         `json:"dir"`
	Name       string         `json:"name"`
	ID         string         `json:"id"`
	State      rundir.State   `json:"state"`
	Started    *time.Time     `json:"started"`
	Step       int64          `json:"step"`
	MaxSteps   int64          `json:"max_steps"`
	Loss       *float64       `json:"loss"`
	EvalLoss   *float64       `json:"eval_loss"`
	Parameters int64          `json:"parameters"`
	World      int            `json:"world"`
	Strategy   string         `json:"strategy"`
	Columns    map[string]any `json:"columns,omitempty"`

	facts facts
}

// facts are the values that filters read: configuration keys, last values of metrics, and fields of run.json.
type facts map[string]string

// factNames are the facts of run.json.
var factNames = []string{"dir", "name", "id", "state", "parameters", "world", "strategy"}

func readRow(run *runlog.Run) (runRow, error) {
	c := run.Card()
	row := runRow{Dir: run.Dir(), Name: run.Name(), ID: c.ID, Parameters: c.Parameters, World: c.World, Strategy: c.Strategy, State: rundir.StateOf(run.Dir(), c), facts: facts{}}
	rec, eval, err := run.Last()
	if err != nil {
		return row, err
	}
	if rec != nil {
		row.Step, row.MaxSteps, row.Loss = rec.Step, rec.MaxSteps, finite(rec.Loss)
	}
	if eval != nil {
		row.EvalLoss = finite(eval.Loss)
	}
	if !c.Started.IsZero() {
		row.Started = &c.Started
	}
	for k, v := range run.Config() {
		row.facts[k] = v
	}
	for _, m := range run.Metrics() {
		if s := run.Summary(m); s.Count > 0 {
			row.facts[m] = fmt.Sprint(s.Last)
			row.facts["min."+m], row.facts["max."+m], row.facts["mean."+m] = fmt.Sprint(s.Min), fmt.Sprint(s.Max), fmt.Sprint(s.Mean)
		}
	}
	for i, v := range []string{row.Dir, row.Name, row.ID, string(row.State), fmt.Sprint(row.Parameters), fmt.Sprint(row.World), row.Strategy} {
		row.facts[factNames[i]] = v
	}
	return row, nil
}

type runsLsFlags struct {
	where, sort, columns string
	reverse, json, names bool
}

func newRunsLs() *cobra.Command {
	f := &runsLsFlags{}
	c := &cobra.Command{
		Use:   "ls [DIR...]",
		Short: "list runs, with filters on any configuration key or metric",
		Long: `List the runs in directories and below them (default: runs and out, or else the working directory).

--where takes comparisons (=, !=, <, <=, >, >=, ~ for a regular expression) with "and", "or", "not" and
parentheses. A name is a configuration key (training.learning_rate), a metric's last value (loss,
eval_loss, memory.parameters), min.METRIC, max.METRIC or mean.METRIC, or one of dir, name, id, state,
parameters, world and strategy. A comparison with a name that a run does not have is false; a name that
no run has is an error. --names lists them.`,
		Example: `  trireme runs ls
  trireme runs ls out --where 'training.learning_rate<1e-4 and loss<2.0' --sort eval_loss
  trireme runs ls --columns training.learning_rate,min.eval_loss --json
  trireme runs ls --names`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	p := c.Flags()
	p.StringVar(&f.where, "where", "", "list the runs that satisfy `EXPR`")
	p.StringVar(&f.sort, "sort", "dir", "sort by `NAME`")
	p.BoolVar(&f.reverse, "reverse", false, "the largest first")
	p.StringVar(&f.columns, "columns", "", "more columns: `NAMES`, separated by commas")
	p.BoolVar(&f.names, "names", false, "list the names for --where, --sort and --columns instead")
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *runsLsFlags) run(c *cobra.Command, args []string) error {
	where, err := parseWhere(f.where)
	if err != nil {
		return err
	}
	dirs, err := findRuns(args)
	if err != nil {
		return err
	}
	rows, known := []runRow{}, newKnownNames(factNames...)
	known.summaries = true
	for _, dir := range dirs {
		run, err := openRun(c.Context(), dir, c.ErrOrStderr())
		if err == nil {
			var row runRow
			if row, err = readRow(run); err == nil {
				known.add(run)
			}
			err = errors.Join(err, run.Close())
			if err == nil && where.keep(row.facts) {
				rows = append(rows, row)
			}
		}
		if ctx := c.Context().Err(); ctx != nil {
			return ctx
		}
		if err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "%v\n", err)
		}
	}
	columns := splitNames(f.columns)
	for _, name := range slices.Concat(where.names, []string{f.sort}, columns) {
		if known.runs == 0 {
			break
		}
		if err := known.check(name, args); err != nil {
			return err
		}
	}
	if f.names {
		return known.print(c.OutOrStdout(), f.json)
	}
	slices.SortStableFunc(rows, func(a, b runRow) int {
		n := compareFacts(a.facts[f.sort], b.facts[f.sort])
		if f.reverse {
			n = -n
		}
		return n
	})
	for i := range rows {
		for _, name := range columns {
			if rows[i].Columns == nil {
				rows[i].Columns = map[string]any{}
			}
			rows[i].Columns[name] = rows[i].facts[name]
		}
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), struct {
			Schema string   `json:"schema"`
			Runs   []runRow `json:"runs"`
		}{"trireme.runs.ls/1", rows})
	}
	if len(rows) == 0 {
		text := "no runs"
		if known.runs > 0 {
			text = fmt.Sprintf("no runs match, of %d", known.runs)
		}
		_, err := fmt.Fprintln(c.OutOrStdout(), text)
		return err
	}
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(append([]string{"run", "state", "started", "step", "loss", "eval"}, columns...), "\t"))
	for _, r := range rows {
		started := "-"
		if r.Started != nil {
			started = r.Started.Local().Format("2006-01-02 15:04")
		}
		step := fmt.Sprint(r.Step)
		if r.MaxSteps > 0 {
			step += fmt.Sprintf("/%d", r.MaxSteps)
		}
		line := []string{r.Dir, string(r.State), started, step, orDash(r.Loss), orDash(r.EvalLoss)}
		for _, name := range columns {
			line = append(line, r.facts[name])
		}
		fmt.Fprintln(t, escapeCells(line))
	}
	return t.Flush()
}

func orDash(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

// escapeCells joins the cells of a row of a table, without control characters of their own.
func escapeCells(cells []string) string {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(monitor.EscapeControl(c), "\t", " ")
	}
	return strings.Join(cells, "\t")
}
