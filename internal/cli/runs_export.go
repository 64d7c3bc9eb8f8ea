package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"

	"trireme/internal/durable"
	"trireme/internal/runlog"
)

// exportSteps is the number of steps that export reads at a time.
const exportSteps = 50_000

type runsExportFlags struct{ selects, where, to string }

func newRunsExport() *cobra.Command {
	f := &runsExportFlags{}
	c := &cobra.Command{
		Use:   "export DIR...",
		Short: "write metrics of runs as CSV or Parquet",
		Long: `Write a row for each record of the runs, of steps and of evaluations, with the selected metrics. A
record without a metric has an empty value. --where filters rows as "runs ls" filters runs: names are
metrics of the row and configuration keys. With several runs the first column is the directory.`,
		Example: `  trireme runs export runs/sft-1 --select 'step, loss' --to loss.csv
  trireme runs export runs/* --select 'step, loss, memory.parameters' --where 'step > 100' --to runs.parquet`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("export needs the directories of runs", "trireme runs ls")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	p := c.Flags()
	p.StringVar(&f.selects, "select", "*", "metrics, separated by commas; * is all of the runs")
	p.StringVar(&f.where, "where", "", "write the rows that satisfy `EXPR`")
	p.StringVar(&f.to, "to", "-", "`FILE`: .csv, .parquet, or - for CSV on standard output")
	return c
}

// rowWriter writes rows of an export. A missing value is runlog's.
type rowWriter interface {
	write(run string, values []float64) error
	close() error
}

func (f *runsExportFlags) run(c *cobra.Command, args []string) error {
	where, err := parseWhere(f.where)
	if err != nil {
		return err
	}
	runs, closeAll, err := openRuns(c, args)
	if err != nil {
		return err
	}
	defer closeAll()
	known := newKnownNames()
	for _, r := range runs {
		known.add(r)
	}
	names, err := f.columns(known, args)
	if err != nil {
		return err
	}
	for _, name := range where.names {
		if err := known.check(name, args); err != nil {
			return err
		}
	}
	several := len(runs) > 1
	fill := func(w rowWriter) error {
		for _, r := range runs {
			if err := f.export(r, names, where, w); err != nil {
				return err
			}
		}
		return w.close()
	}
	switch ext := filepath.Ext(f.to); {
	case f.to == "-":
		return fill(newCSVRows(c.OutOrStdout(), names, several))
	case ext == ".csv":
		return durable.Replace(f.to, 0o644, func(file *os.File) error { return fill(newCSVRows(file, names, several)) })
	case ext == ".parquet":
		return durable.Replace(f.to, 0o644, func(file *os.File) error { return fill(newParquetRows(file, names, several)) })
	}
	return usage(fmt.Sprintf("--to %s: only .csv and .parquet are known", f.to), "--to metrics.csv")
}

// columns returns the selected metrics, each once: in the order of --select, and for * the step, then the others by name.
func (f *runsExportFlags) columns(known *knownNames, dirs []string) (out []string, err error) {
	for _, name := range splitNames(f.selects) {
		some := []string{name}
		if name == "*" {
			delete(known.metrics, "step")
			some = append([]string{"step"}, slices.Sorted(maps.Keys(known.metrics))...)
			known.metrics["step"] = true
		} else if err := known.checkMetric(name, dirs); err != nil {
			return nil, err
		}
		for _, n := range some {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	if len(out) == 0 {
		return nil, usage("--select names no metric", "--select 'step, loss'")
	}
	return out, nil
}

// export writes the rows of a run.
func (f *runsExportFlags) export(r *runlog.Run, names []string, where filter, w rowWriter) error {
	first, last, ok := r.Steps()
	if !ok {
		return nil
	}
	row := facts{}
	all := names
	for k, v := range r.Config() {
		row[k] = v
	}
	for _, name := range where.names { // a filter may have any metric
		if !slices.Contains(all, name) && slices.Contains(r.Metrics(), name) {
			all = append(all[:len(all):len(all)], name)
		}
	}
	for from := first; from <= last; from += exportSteps {
		columns, err := r.Columns(from, min(last, from+exportSteps-1), all...)
		if err != nil {
			return err
		}
		values := make([]float64, len(names))
		for i := range columns[0] {
			if len(where.names) > 0 {
				for k, name := range all {
					if v := columns[1+k][i]; runlog.Missing(v) {
						delete(row, name)
					} else {
						row[name] = strconv.FormatFloat(v, 'g', -1, 64)
					}
				}
				if !where.keep(row) {
					continue
				}
			}
			for k := range names {
				values[k] = columns[1+k][i]
			}
			if err := w.write(r.Dir(), values); err != nil {
				return err
			}
		}
	}
	return nil
}

type csvRows struct {
	*csv.Writer
	several bool
	cells   []string
}

func newCSVRows(w io.Writer, names []string, several bool) *csvRows {
	c := &csvRows{Writer: csv.NewWriter(w), several: several}
	header := names
	if several {
		header = append([]string{"run"}, names...)
	}
	c.Write(header) // close returns its error
	return c
}

func (c *csvRows) write(run string, values []float64) error {
	c.cells = c.cells[:0]
	if c.several {
		c.cells = append(c.cells, run)
	}
	for _, v := range values {
		text := ""
		if !runlog.Missing(v) {
			text = strconv.FormatFloat(v, 'f', -1, 64)
		}
		c.cells = append(c.cells, text)
	}
	return c.Write(c.cells)
}

func (c *csvRows) close() error {
	c.Flush()
	return c.Error()
}

type parquetRows struct {
	w       *parquet.GenericWriter[any]
	columns []int // of the names
	run     int   // column of the run; -1: none
	rows    []parquet.Row
}

func newParquetRows(w io.Writer, names []string, several bool) *parquetRows {
	group := parquet.Group{}
	for _, n := range names {
		group[n] = parquet.Optional(parquet.Leaf(parquet.DoubleType))
	}
	if several {
		group["run"] = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
	schema := parquet.NewSchema("metrics", group)
	p := &parquetRows{w: parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Zstd)), run: -1}
	column := func(name string) int {
		leaf, _ := schema.Lookup(name)
		return leaf.ColumnIndex
	}
	for _, n := range names {
		p.columns = append(p.columns, column(n))
	}
	if several {
		p.run = column("run")
	}
	return p
}

func (p *parquetRows) write(run string, values []float64) error {
	row := make(parquet.Row, len(values), len(values)+1)
	if p.run >= 0 {
		row = append(row, parquet.Value{})
		row[p.run] = parquet.ByteArrayValue([]byte(run)).Level(0, 0, p.run)
	}
	for i, v := range values {
		at := p.columns[i]
		if runlog.Missing(v) {
			row[at] = parquet.NullValue().Level(0, 0, at)
		} else {
			row[at] = parquet.DoubleValue(v).Level(0, 1, at)
		}
	}
	if p.rows = append(p.rows, row); len(p.rows) < 1000 {
		return nil
	}
	return p.flush()
}

func (p *parquetRows) flush() error {
	_, err := p.w.WriteRows(p.rows)
	p.rows = p.rows[:0]
	return err
}

func (p *parquetRows) close() error { return errors.Join(p.flush(), p.w.Close()) }
