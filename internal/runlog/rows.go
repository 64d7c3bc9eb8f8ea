package runlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sort"

	"trireme/internal/flock"
	"trireme/internal/rundir"
	"trireme/monitor"
)

// Row has the records of one step.
type Row struct {
	Step        int64
	Record      *monitor.Record       // of the step; nil: none
	Evaluations []*monitor.Evaluation // after the step
	Values      map[string]float64    // of all metrics that they have; NaN: not finite
}

// At returns the records of a step, or of the last step before it that has some. ok is false if there is none.
func (r *Run) At(step int64) (row Row, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.again(func() error {
		row, ok = Row{Values: map[string]float64{}}, false
		return r.at(step, &row, &ok)
	})
	return row, ok, err
}

func (r *Run) at(step int64, row *Row, ok *bool) error {
	all := r.rec.all()
	last := sort.Search(len(all), func(i int) bool { first, _ := all[i].steps(); return first > step }) - 1
	if last < 0 {
		return nil
	}
	steps, err := all[last].values(fixed[colStep])
	if err != nil {
		return r.rec.damaged(all[last], err)
	}
	end := sort.SearchFloat64s(steps, float64(step)+1)
	until := end
	row.Step, *ok = int64(steps[end-1]), true
	for i := last; i >= 0; i-- {
		if i < last {
			if _, highest := all[i].steps(); highest < row.Step {
				break
			}
			if steps, err = all[i].values(fixed[colStep]); err != nil {
				return r.rec.damaged(all[i], err)
			}
			end = len(steps)
		}
		begin := sort.SearchFloat64s(steps, float64(row.Step))
		for k := end - 1; k >= begin; k-- {
			if err := r.addRow(row, all[i], k); err != nil {
				return err
			}
		}
	}
	totals, err := all[last].values(fixed[colTotal])
	if err != nil {
		return r.rec.damaged(all[last], err)
	}
	row.Values[fixed[colTotal]] = r.rec.total(last) + totals[until-1]
	return nil
}

func (r *Run) addRow(row *Row, c chunk, k int) error {
	line, err := r.rec.line(c, k)
	if err != nil {
		return err
	}
	if _, err := r.rec.scan.scan(line); err != nil {
		return nil // replaced meanwhile
	}
	for _, cell := range r.rec.scan.cells {
		row.Values[r.rec.names.list[cell.id]] = cell.v
	}
	switch rec, eval, err := monitor.Parse(line); {
	case err != nil:
	case eval != nil:
		row.Evaluations = append([]*monitor.Evaluation{eval}, row.Evaluations...)
	default:
		row.Record = rec
	}
	return nil
}

// line reads the line of a row.
func (r *records) line(c chunk, row int) ([]byte, error) {
	offsets, err := c.values(fixed[colOffset])
	if err != nil {
		return nil, r.damaged(c, err)
	}
	part, _, end := c.span()
	if row+1 < len(offsets) {
		end = int64(offsets[row+1])
	}
	f, err := r.open(part)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at := int64(offsets[row])
	in := bufio.NewReader(io.NewSectionReader(f, at, min(end-at, maxLine)))
	line, err := in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return bytes.TrimSpace(line), nil
}

// open opens a part.
func (r *records) open(part int) (*os.File, error) {
	parts, err := monitor.Parts(filepath.Join(r.dir, rundir.Metrics))
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if p.Number == part {
			return flock.Open(p.Path, os.O_RDONLY, 0)
		}
	}
	return nil, fmt.Errorf("%s: part %d of the records is missing", r.dir, part)
}

// Line is a record of a step or of an evaluation.
type Line struct {
	Record     *monitor.Record     // nil: an evaluation
	Evaluation *monitor.Evaluation // nil: a step
}

// Records reads the records of the steps from to to, in order; to 0 is the last. It parses lines, so use Series or
// Columns for more than some thousand steps.
func (r *Run) Records(from, to int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		r.mu.Lock()
		at, ok, err := r.find(from)
		r.mu.Unlock()
		if err != nil {
			yield(Line{}, err)
			return
		}
		if !ok {
			return
		}
		for line, err := range r.lines(at) {
			if err != nil {
				yield(Line{}, err)
				return
			}
			step := int64(0)
			if line.Record != nil {
				step = line.Record.Step
			} else {
				step = line.Evaluation.Step
			}
			if to > 0 && step > to {
				return
			}
			if step >= from && !yield(line, nil) {
				return
			}
		}
	}
}

// find returns the position of the first row from a step on.
func (r *Run) find(step int64) (at position, ok bool, err error) {
	err = r.again(func() error {
		ok = false
		for _, c := range r.rec.all() {
			if _, last := c.steps(); last < step {
				continue
			}
			steps, err := c.values(fixed[colStep])
			if err != nil {
				return r.rec.damaged(c, err)
			}
			offsets, err := c.values(fixed[colOffset])
			if err != nil {
				return r.rec.damaged(c, err)
			}
			part, _, _ := c.span()
			at, ok = position{part, int64(offsets[sort.SearchFloat64s(steps, float64(step))])}, true
			return nil
		}
		return nil
	})
	return at, ok, err
}

// lines reads complete lines from a position to the end of the records. Lines that are no records, or whose step falls,
// are left out.
func (r *Run) lines(from position) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		r.mu.Lock()
		end := r.rec.at
		r.mu.Unlock()
		highest := int64(-1)
		for part := from.part; part <= end.part; part++ {
			f, err := r.rec.open(part)
			if err != nil {
				yield(Line{}, err)
				return
			}
			at, size := int64(0), int64(1)<<62
			if part == from.part {
				at = from.at
			}
			if part == end.part {
				size = end.at
			}
			more := readLines(io.NewSectionReader(f, at, size-at), func(b []byte) bool {
				rec, eval, err := monitor.Parse(b)
				step := int64(0)
				switch {
				case err != nil:
					return true
				case rec != nil:
					step = rec.Step
				default:
					step = eval.Step
				}
				if step < highest {
					return true
				}
				highest = step
				return yield(Line{rec, eval}, nil)
			})
			if f.Close(); !more {
				return
			}
		}
	}
}

// readLines calls f with each complete line until f returns false. Lines longer than maxLine are left out.
func readLines(in io.Reader, f func([]byte) bool) bool {
	b := bufio.NewReaderSize(in, 1<<16)
	var long []byte
	for {
		line, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(long) <= maxLine {
				long = append(long, line...)
			}
			continue
		case err != nil:
			return true // the end, or a torn line
		case len(long) > 0:
			line = append(long, line...)
			long = long[:0]
			if len(line) > maxLine {
				continue
			}
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && !f(line) {
			return false
		}
	}
}
