package runlog

import (
	"fmt"
	"math"
	"sort"
)

// Bucket summarizes the values of a metric in consecutive records.
type Bucket struct {
	Step, LastStep int64   // the first and the last step
	Time           float64 // of the last record, in seconds since 1970; NaN: unknown
	Tokens         float64 // of all steps until the last one
	// Of the finite values; NaN if there are none.
	Min, Max, Mean, Last float64
	Count, NonFinite     int // values that are finite, and that are not
}

// Series is a metric over steps.
type Series struct {
	Metric  string
	Buckets []Bucket // in the order of steps; those without a value are left out
	Exact   bool     // each bucket has one record
}

// Series returns a metric over the steps from to to, in up to about maxPoints buckets. to 0 is the last step, and
// maxPoints 0 has a bucket for each record. A metric that the run does not have is empty.
func (r *Run) Series(metric string, from, to int64, maxPoints int) (s Series, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.again(func() error {
		s, err = r.series(metric, from, to, maxPoints)
		return err
	})
	return s, err
}

// window is the rows of a chunk that a request covers.
type window struct {
	chunk
	index      int
	begin, end int // rows
}

// windows returns the rows of the steps from to to.
func (r *Run) windows(from, to int64) (out []window, rows int, err error) {
	for i, c := range r.rec.all() {
		first, last := c.steps()
		if last < from || to > 0 && first > to {
			continue
		}
		w := window{c, i, 0, c.rows()}
		if first < from || to > 0 && last > to {
			steps, err := c.values(fixed[colStep])
			if err != nil {
				return nil, 0, r.rec.damaged(c, err)
			}
			w.begin = sort.SearchFloat64s(steps, float64(from))
			if to > 0 {
				w.end = sort.SearchFloat64s(steps, float64(to)+1)
			}
		}
		if w.begin < w.end {
			out = append(out, w)
			rows += w.end - w.begin
		}
	}
	return out, rows, nil
}

func (r *Run) series(metric string, from, to int64, maxPoints int) (Series, error) {
	s := Series{Metric: metric, Exact: true}
	windows, rows, err := r.windows(from, to)
	if err != nil {
		return s, err
	}
	present := 0
	for _, w := range windows {
		b := w.top(metric)
		present += int(b.count + b.nonfinite)
	}
	width := 1
	if maxPoints > 0 && min(present, rows) > maxPoints {
		width = (rows + maxPoints - 1) / maxPoints
	}
	level := 0
	for level+1 < len(levelRows) && levelRows[level+1] <= width {
		level++
	}
	width = max(1, width/levelRows[level]) * levelRows[level]
	s.Exact = width == 1
	b := builder{out: &s, width: width}
	for _, w := range windows {
		if t := w.top(metric); t.count == 0 && t.nonfinite == 0 {
			b.flush()
			continue
		}
		if err := b.window(w, metric, level, r.rec.total(w.index)); err != nil {
			return s, r.rec.damaged(w.chunk, err)
		}
	}
	b.flush()
	return s, nil
}

// builder joins the buckets of chunks to those of a series.
type builder struct {
	out   *Series
	width int // rows of a bucket
	rows  int // of the open bucket
	v     bucket
	b     Bucket
}

// columns that every series needs, with the metric first.
type columns [4][]bucket

// window adds the rows of a window, by buckets of a level where they are within it.
func (b *builder) window(w window, metric string, level int, tokens float64) error {
	names := [4]string{metric, fixed[colStep], fixed[colTime], fixed[colTotal]}
	n := levelRows[level]
	inner, until := (w.begin+n-1)/n*n, w.end/n*n // rows of whole buckets
	if w.end == w.rows() {
		until = w.end
	}
	if level > 0 && inner < until {
		if w.begin < inner {
			if err := b.raw(w, names, w.begin, inner, tokens); err != nil {
				return err
			}
		}
		var cs columns
		for i, name := range names {
			var err error
			if cs[i], err = w.buckets(name, level); err != nil {
				return err
			}
		}
		for k := inner / n; k*n < until; k++ {
			b.add(cs, k, min(n, w.rows()-k*n), tokens)
		}
		if until < w.end {
			return b.raw(w, names, until, w.end, tokens)
		}
		return nil
	}
	return b.raw(w, names, w.begin, w.end, tokens)
}

// raw adds rows one by one.
func (b *builder) raw(w window, names [4]string, begin, end int, tokens float64) error {
	var cs columns
	for i, name := range names {
		v, err := w.values(name)
		if err != nil {
			return err
		}
		if v != nil {
			cs[i] = summarize(v[begin:end], 1)
		}
	}
	for k := range end - begin {
		b.add(cs, k, 1, tokens)
	}
	return nil
}

// add adds bucket k of a chunk, of n rows.
func (b *builder) add(cs columns, k, n int, tokens float64) {
	if cs[0] == nil {
		return
	}
	if b.rows == 0 {
		b.v = empty
		b.b = Bucket{Step: int64(cs[1][k].min), Time: math.NaN()}
	}
	b.v.merge(cs[0][k])
	b.b.LastStep = int64(cs[1][k].max)
	if cs[2] != nil && cs[2][k].count > 0 {
		b.b.Time = cs[2][k].last
	}
	b.b.Tokens = tokens + cs[3][k].last
	if cs[0] != nil && b.out.Metric == fixed[colTotal] { // relative to its chunk
		b.v.min, b.v.max, b.v.last = b.b.Tokens, b.b.Tokens, b.b.Tokens
		b.v.sum = b.b.Tokens * float64(b.v.count)
	}
	if b.rows += n; b.rows >= b.width {
		b.flush()
	}
}

// flush ends the open bucket.
func (b *builder) flush() {
	if b.rows > 0 && (b.v.count > 0 || b.v.nonfinite > 0) {
		o := b.b
		o.Min, o.Max, o.Last, o.Mean = b.v.min, b.v.max, b.v.last, missing
		o.Count, o.NonFinite = int(b.v.count), int(b.v.nonfinite)
		if o.Count > 0 {
			o.Mean = b.v.sum / float64(o.Count)
		}
		b.out.Buckets = append(b.out.Buckets, o)
	}
	b.rows = 0
}

// Columns returns the values of metrics in each record of the steps from to to; to 0 is the last step. The first
// is the step. A record without the metric, or whose value is not finite, has NaN; see Missing.
func (r *Run) Columns(from, to int64, metrics ...string) (out [][]float64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.again(func() error {
		windows, rows, err := r.windows(from, to)
		if err != nil {
			return err
		}
		out = make([][]float64, 1+len(metrics))
		for i, name := range append([]string{fixed[colStep]}, metrics...) {
			out[i] = make([]float64, 0, rows)
			for _, w := range windows {
				v, err := w.values(name)
				if err != nil {
					return r.rec.damaged(w.chunk, fmt.Errorf("%s: %w", name, err))
				}
				for row := w.begin; row < w.end; row++ {
					switch {
					case v == nil:
						out[i] = append(out[i], missing)
					case name == fixed[colTotal]:
						out[i] = append(out[i], r.rec.total(w.index)+v[row])
					default:
						out[i] = append(out[i], v[row])
					}
				}
			}
		}
		return nil
	})
	return out, err
}

// Missing reports whether a value of Columns is of a record without the metric.
func Missing(v float64) bool { return isMissing(v) }
