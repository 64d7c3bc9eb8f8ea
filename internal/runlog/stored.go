package runlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

func (c *stored) span() (int, int64, int64)  { return c.part, c.begin, c.end }
func (c *stored) rows() int                  { return c.n }
func (c *stored) steps() (first, last int64) { return c.first, c.last }
func (c *stored) metrics() []string          { return c.names }
func (c *stored) close() error               { return c.f.Close() }

func (c *stored) top(metric string) bucket {
	if col := c.columns[metric]; col != nil {
		return col.all
	}
	return empty
}

// read reads and checks a level of a column.
func (c *stored) read(col *storedColumn, level int) ([]byte, error) {
	at, sizes := col.offset, lengths(c.n)
	for i := range level {
		at += sizes[i]
	}
	b := make([]byte, sizes[level])
	if _, err := c.f.ReadAt(b, at); err != nil || crc32.Checksum(b, castagnoli) != col.sums[level] {
		return nil, fmt.Errorf("%s: %w", c.f.Name(), errDamaged)
	}
	return b, nil
}

func (c *stored) values(metric string) ([]float64, error) {
	col := c.columns[metric]
	if col == nil {
		return nil, nil
	}
	out := make([]float64, c.n)
	if col.constant {
		for i := range out {
			out[i] = col.value
		}
		return out, nil
	}
	b, err := c.read(col, 0)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out, nil
}

func (c *stored) buckets(metric string, level int) ([]bucket, error) {
	col := c.columns[metric]
	if col == nil {
		return nil, nil
	}
	if level == len(levelRows)-1 {
		return []bucket{col.all}, nil
	}
	if col.constant {
		out := make([]bucket, 0, (c.n+levelRows[level]-1)/levelRows[level])
		for from := 0; from < c.n; from += levelRows[level] {
			one := bucketOf(col.value)
			n := uint32(min(levelRows[level], c.n-from))
			one.count, one.nonfinite, one.sum = one.count*n, one.nonfinite*n, one.sum*float64(n)
			out = append(out, one)
		}
		return out, nil
	}
	b, err := c.read(col, level)
	if err != nil {
		return nil, err
	}
	out := make([]bucket, len(b)/bucketSize)
	for i := range out {
		out[i] = readBucket(b[i*bucketSize:])
	}
	return out, nil
}
