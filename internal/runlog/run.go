package runlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"trireme/fault"
	"trireme/internal/rundir"
	"trireme/monitor"
)

// Run is the directory of a run. Its methods may be called from several goroutines.
type Run struct {
	dir  string
	card rundir.Card

	mu  sync.Mutex
	rec *records
}

// Options are the options of OpenWith. The zero value is Open's.
type Options struct {
	// Progress is called while records are read that the index does not have, with bytes. nil: never.
	Progress func(done, total int64)
}

// Is reports whether a directory has a run: run.json or records.
func Is(dir string) bool {
	for _, name := range []string{rundir.Identity, rundir.Metrics} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// Open opens a run's directory and reads its records, which is fast if the index has them.
func Open(dir string) (*Run, error) { return OpenWith(context.Background(), dir, Options{}) }

// OpenWith is Open with options, until ctx is done.
func OpenWith(ctx context.Context, dir string, o Options) (*Run, error) {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() || !Is(dir) {
		if err == nil {
			err = errors.New("no run: it has neither " + rundir.Identity + " nor " + rundir.Metrics)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("no such directory")
		}
		return nil, fault.Try(fmt.Errorf("%s: %w", dir, err), "the output directory of a run")
	}
	r := &Run{dir: dir, rec: newRecords(dir)}
	var err error
	if r.card, err = rundir.ReadCard(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.card = rundir.Card{} // the records have their own identity
	}
	if err := r.rec.extend(ctx, o.Progress); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), r.rec.close())
	}
	return r, nil
}

// Close closes the files of the index.
func (r *Run) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec.close()
}

// Refresh reads what was written since Open or the last Refresh. reset reports that a resumed run has removed records, so
// earlier results are of no use.
func (r *Run) Refresh(ctx context.Context) (reset bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.rec.resets
	if card, err := rundir.ReadCard(r.dir); err == nil {
		r.card = card
	}
	err = r.rec.extend(ctx, nil)
	return r.rec.resets != before, err
}

// Dir returns the directory as it was opened.
func (r *Run) Dir() string { return r.dir }

// Card returns run.json; it is zero if there is none.
func (r *Run) Card() rundir.Card {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.card
}

// Name returns the run's name, of run.json or of the directory.
func (r *Run) Name() string {
	if c := r.Card(); c.Name != "" {
		return c.Name
	}
	if abs, err := filepath.Abs(r.dir); err == nil {
		return filepath.Base(abs)
	}
	return filepath.Base(r.dir)
}

// Running reports whether a process holds the run's lock.
func (r *Run) Running() bool {
	_, held := rundir.Holder(r.dir)
	return held
}

// Rows returns the number of records of steps and evaluations, and the number of ignored lines.
func (r *Run) Rows() (n, ignored int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.rec.all() {
		n += c.rows()
	}
	return n, r.rec.skipped
}

// Steps returns the first and the last step with a record; ok is false if there are none.
func (r *Run) Steps() (first, last int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.rec.all()
	if len(all) == 0 {
		return 0, 0, false
	}
	first, _ = all[0].steps()
	_, last = all[len(all)-1].steps()
	return first, last, true
}

// Metrics returns the names of the metrics that some record has, sorted.
func (r *Run) Metrics() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, c := range r.rec.all() {
		for _, name := range c.metrics() {
			if b := c.top(name); b.count > 0 || b.nonfinite > 0 {
				seen[name] = true
			}
		}
	}
	var out []string
	for name := range seen {
		if !strings.HasPrefix(name, "@") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Summary has the extremes of a metric over all records.
type Summary struct {
	Min, Max, Mean, Last float64 // of the finite values; NaN if there are none
	Count, NonFinite     int
}

// Summary returns the extremes of a metric.
func (r *Run) Summary(metric string) Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, n, bad := empty, 0, 0
	for _, c := range r.rec.all() {
		top := c.top(metric)
		n, bad = n+int(top.count), bad+int(top.nonfinite)
		b.merge(top)
	}
	s := Summary{Min: b.min, Max: b.max, Mean: missing, Last: b.last, Count: n, NonFinite: bad}
	if n > 0 {
		s.Mean = b.sum / float64(n)
	}
	if metric == fixed[colTotal] && len(r.rec.all()) > 0 {
		all := r.rec.all()
		s.Max = r.rec.total(len(r.rec.chunks))
		if len(all) > len(r.rec.chunks) {
			s.Max += all[len(all)-1].top(metric).last
		}
		s.Last = s.Max
	}
	return s
}

// Last returns the newest record of a step, or nil, and the newest evaluation, or nil.
func (r *Run) Last() (*monitor.Record, *monitor.Evaluation, error) {
	var rec *monitor.Record
	var eval *monitor.Evaluation
	for _, metric := range []string{"loss", "eval_loss"} {
		line, err := r.newest(metric)
		if err != nil {
			return nil, nil, err
		}
		if line == nil {
			continue
		}
		got, e, err := monitor.Parse(line)
		switch {
		case err != nil:
		case e != nil:
			eval = e
		default:
			rec = got
		}
	}
	return rec, eval, nil
}

// newest returns the newest line that has a metric, or nil.
func (r *Run) newest(metric string) (line []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.again(func() error {
		line = nil
		all := r.rec.all()
		for i := len(all) - 1; i >= 0; i-- {
			if b := all[i].top(metric); b.count == 0 && b.nonfinite == 0 {
				continue
			}
			v, err := all[i].values(metric)
			if err != nil {
				return r.rec.damaged(all[i], err)
			}
			for row := len(v) - 1; row >= 0; row-- {
				if !isMissing(v[row]) {
					line, err = r.rec.line(all[i], row)
					return err
				}
			}
		}
		return nil
	})
	return line, err
}

// again calls f, and after an error of the index builds that and calls f a second time.
func (r *Run) again(f func() error) error {
	for range 4 {
		err := f()
		if !errors.Is(err, errReread) {
			return err
		}
		if err := errors.Join(r.rec.close()); err != nil {
			return err
		}
		r.rec.resets++
		if err := r.rec.extend(context.Background(), nil); err != nil {
			return err
		}
	}
	return errReread
}
