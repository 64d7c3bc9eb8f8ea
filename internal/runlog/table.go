package runlog

import (
	"math"
	"slices"
)

// Rows of a chunk and of the buckets of its levels. Level 0 has a bucket per row.
const (
	chunkRows = 32768
	fan       = 32
)

var levelRows = [...]int{1, fan, fan * fan, chunkRows}

// bucket summarizes the values of a metric in consecutive rows.
type bucket struct {
	min, max, sum, last float64 // of the finite values; missing if there are none
	count, nonfinite    uint32
}

var empty = bucket{min: missing, max: missing, last: missing}

// add adds one value.
func (b *bucket) add(v float64) {
	switch {
	case isMissing(v):
	case v-v != 0:
		b.nonfinite++
	case b.count == 0:
		b.min, b.max, b.sum, b.last, b.count = v, v, v, v, 1
	default:
		b.min, b.max, b.sum, b.last, b.count = min(b.min, v), max(b.max, v), b.sum+v, v, b.count+1
	}
}

// merge adds the bucket of later rows.
func (b *bucket) merge(c bucket) {
	b.nonfinite += c.nonfinite
	switch {
	case c.count == 0:
	case b.count == 0:
		c.nonfinite = b.nonfinite
		*b = c
	default:
		b.min, b.max, b.sum, b.last, b.count = min(b.min, c.min), max(b.max, c.max), b.sum+c.sum, c.last, b.count+c.count
	}
}

func bucketOf(v float64) bucket {
	b := empty
	b.add(v)
	return b
}

// summarize returns the buckets of rows values each.
func summarize(values []float64, rows int) []bucket {
	out := make([]bucket, 0, (len(values)+rows-1)/rows)
	for part := range slices.Chunk(values, rows) {
		b := empty
		for _, v := range part {
			b.add(v)
		}
		out = append(out, b)
	}
	return out
}

// position is between two lines of the records: a byte of a part.
type position struct {
	part int // number of the file; see monitor.Parts
	at   int64
}

// chunk is a number of consecutive rows of one part: a table in memory, or a file of the index.
type chunk interface {
	span() (part int, begin, end int64) // the bytes of the part
	rows() int
	steps() (first, last int64) // of the rows; there is at least one
	metrics() []string
	// top summarizes a metric in all rows; absent metrics are empty.
	top(metric string) bucket
	// values returns a metric's value in each row; nil if all are missing.
	values(metric string) ([]float64, error)
	// buckets returns a metric's buckets of a level from 1; nil if all are missing.
	buckets(metric string, level int) ([]bucket, error)
	close() error
}

// table is a chunk in memory, to which rows are added.
type table struct {
	names      *names
	part       int
	begin, end int64
	n          int
	columns    [][]float64 // by number of the name; nil: all missing
	tokens     float64     // of all rows
}

var _ chunk = (*table)(nil)

func newTable(n *names, part int, begin int64) *table {
	return &table{names: n, part: part, begin: begin, end: begin}
}

// add appends the row of a line.
func (t *table) add(step int64, offset int64, cells []cell) {
	for i, c := range t.columns {
		if c != nil {
			t.columns[i] = append(c, missing)
		}
	}
	t.n++
	t.set(colStep, float64(step))
	t.set(colOffset, float64(offset))
	for _, c := range cells {
		t.set(c.id, c.v)
	}
	if t.columns[colTokens] != nil {
		if v := t.columns[colTokens][t.n-1]; v-v == 0 {
			t.tokens += v
		}
	}
	t.set(colTotal, t.tokens)
}

// setAll sets a whole column.
func (t *table) setAll(id int, values []float64) {
	if id >= len(t.columns) {
		t.columns = append(t.columns, make([][]float64, max(id+1, len(fixed))-len(t.columns))...)
	}
	t.columns[id] = values
}

func (t *table) set(id int, v float64) {
	if id >= len(t.columns) {
		t.columns = append(t.columns, make([][]float64, max(id+1, len(fixed))-len(t.columns))...)
	}
	c := t.columns[id]
	if c == nil {
		c = make([]float64, t.n, max(t.n, min(chunkRows, 1024)))
		for i := range c {
			c[i] = missing
		}
		t.columns[id] = c
	}
	c[t.n-1] = v
}

func (t *table) span() (int, int64, int64) { return t.part, t.begin, t.end }
func (t *table) rows() int                 { return t.n }
func (t *table) close() error              { return nil }

func (t *table) steps() (first, last int64) {
	c := t.columns[colStep]
	return int64(c[0]), int64(c[t.n-1])
}

func (t *table) metrics() (out []string) {
	for id, c := range t.columns {
		if c != nil {
			out = append(out, t.names.list[id])
		}
	}
	return out
}

func (t *table) values(metric string) ([]float64, error) {
	id, ok := t.names.ids[metric]
	if !ok || id >= len(t.columns) || t.columns[id] == nil {
		return nil, nil
	}
	return t.columns[id][:t.n:t.n], nil
}

func (t *table) buckets(metric string, level int) ([]bucket, error) {
	v, _ := t.values(metric)
	if v == nil {
		return nil, nil
	}
	return summarize(v, levelRows[level]), nil
}

func (t *table) top(metric string) bucket {
	b := empty
	v, _ := t.values(metric)
	for _, v := range v {
		b.add(v)
	}
	return b
}

// constant reports whether all values have the same bits.
func constant(values []float64) bool {
	for _, v := range values[1:] {
		if math.Float64bits(v) != math.Float64bits(values[0]) {
			return false
		}
	}
	return true
}
