package monitor

import (
	"math"
	"time"
)

// Histogram counts values of a tensor by size: a bucket per sign and half power of two, from 2^-40 to
// 2^24. Smaller values count as 0, larger ones in the last bucket, so counts of all ranks add up whatever
// the shards.
type Histogram struct {
	Name   string // of the parameter
	Counts []int64
}

// The buckets of a Histogram: NaN, then negative values from the largest to the smallest, 0, and positive ones.
const (
	minExponent      = -40
	maxExponent      = 24
	perSign          = 2 * (maxExponent - minExponent)
	HistogramBuckets = 1 + perSign + 1 + perSign
)

// CountBuckets adds the values of v times scale to counts, of length HistogramBuckets.
func CountBuckets(counts []int64, v []float32, scale float32) {
	// By sign, exponent and first bit of the mantissa, so that no branch depends on a value's size. Two tables,
	// since neighbors are often equal and an increment waits for the one before.
	var raw [2][1024]int64
	nan := int64(0)
	for i, x := range v {
		b := math.Float32bits(x * scale)
		if b&0x7fffffff > 0x7f800000 {
			nan++
			continue
		}
		raw[i&1][b>>22]++
	}
	const zero = 1 + perSign
	counts[0] += nan
	for b := range raw[0] {
		n := raw[0][b] + raw[1][b]
		switch i := b&0x1ff - 2*(minExponent+127); { // half powers of two above 2^minExponent
		case i < 0:
			counts[zero] += n
		case b>>9 != 0:
			counts[zero-1-min(i, perSign-1)] += n
		default:
			counts[zero+1+min(i, perSign-1)] += n
		}
	}
}

// bucketEdge returns the lower size of bucket i of a sign: 2^e or 1.5 * 2^e.
func bucketEdge(i int) float64 { return math.Ldexp(1+float64(i&1)/2, minExponent+i>>1) }

// Range returns the limits of bucket i, which is not that of NaN.
func (h Histogram) Range(i int) (lo, hi float64) {
	switch k := i - 1 - perSign; {
	case k > 0:
		return bucketEdge(k - 1), bucketEdge(k)
	case k < 0:
		return -bucketEdge(-k), -bucketEdge(-k - 1)
	}
	return -bucketEdge(0), bucketEdge(0)
}

// Used returns the range [lo, hi) of buckets with counts, without NaN; empty if there are none.
func (h Histogram) Used() (lo, hi int) {
	for i, n := range h.Counts {
		if i > 0 && n > 0 {
			if hi == 0 {
				lo = i
			}
			hi = i + 1
		}
	}
	return lo, hi
}

// Histograms are those of one step: the weights after it, and the mean gradients before clipping.
type Histograms struct {
	Step      int64
	Time      time.Time
	Weights   []Histogram
	Gradients []Histogram
}

// HistogramSink is a Sink that shows histograms.
type HistogramSink interface {
	Histograms(Histograms) error
}

// WriteHistograms passes h to s, if it shows them.
func WriteHistograms(s Sink, h Histograms) error {
	if shows, ok := s.(HistogramSink); ok {
		return shows.Histograms(h)
	}
	return nil
}
