package trackers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// csvDir is the directory of CSV files in the output directory.
const csvDir = "csv"

// csv writes a file for each tag, with columns step and value. A resumed run appends.
type csv struct {
	dir   string
	known map[string]bool // files that have a heading
}

func newCSV(run Run) *csv { return &csv{filepath.Join(run.Dir, csvDir), map[string]bool{}} }

func (c *csv) send(_ context.Context, events []event) error {
	rows := map[string][]byte{}
	for _, e := range events {
		all, step := e.scalars()
		for _, v := range all {
			row := strconv.AppendInt(rows[v.Tag], step, 10)
			row = append(row, ',')
			row = strconv.AppendFloat(row, v.Value, 'g', -1, 64)
			rows[v.Tag] = append(row, '\n')
		}
	}
	for tag, text := range rows {
		if err := c.append(tag, text); err != nil {
			return rejection{err}
		}
	}
	return nil
}

func (c *csv) append(tag string, rows []byte) error {
	name := fileName(tag) + ".csv"
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return err
	} else if !c.known[name] && st.Size() == 0 {
		rows = append([]byte("step,"+name[:len(name)-len(".csv")]+"\n"), rows...)
	}
	c.known[name] = true
	if _, err := f.Write(rows); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}

func (c *csv) finish(context.Context, End) error { return nil }

// fileName returns a tag as a file name, as DeepSpeed's CSV monitor names them: train/loss is train_loss.
func fileName(tag string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, tag[:min(len(tag), 200)])
}
