package ui

import (
	"cmp"
	"math"
	"slices"

	"trireme/internal/runlog"
)

// scale maps between the steps of a run and an axis.
type scale struct {
	run      *runlog.Run
	axis     string
	start    float64 // time of the first record
	from, to float64 // of all records
}

// newScale returns false for a run without records.
func newScale(run *runlog.Run, axis string) (x scale, ok bool, err error) {
	x = scale{run: run, axis: axis}
	first, last, ok := run.Steps()
	if !ok {
		return x, false, nil
	}
	ends, err := run.Series("step", first, first, 1)
	if err != nil || len(ends.Buckets) == 0 {
		return x, false, err
	}
	x.start = ends.Buckets[0].Time
	x.from = x.of(ends.Buckets[0])
	if ends, err = run.Series("step", last, last, 1); err != nil || len(ends.Buckets) == 0 {
		return x, false, err
	}
	x.to = x.of(ends.Buckets[len(ends.Buckets)-1])
	return x, true, nil
}

// of returns the position of a bucket.
func (x scale) of(b runlog.Bucket) (v float64) {
	switch x.axis {
	case "step":
		return float64(b.Step+b.LastStep) / 2
	case "tokens":
		return b.Tokens
	case "wall":
		v = b.Time
	default:
		v = b.Time - x.start
	}
	return orZero(v)
}

// steps returns the steps that a range of the axis covers, and one bucket to both sides.
func (x scale) steps(from, to float64) (first, last int64, err error) {
	first, last, _ = x.run.Steps()
	if x.axis == "step" {
		return max(first, clampStep(math.Floor(from))), min(last, clampStep(math.Ceil(to))), nil
	}
	lo, hi := first, last
	if from > x.from {
		if lo, _, err = x.around(from); err != nil {
			return 0, 0, err
		}
	}
	if to < x.to {
		if _, hi, err = x.around(to); err != nil {
			return 0, 0, err
		}
	}
	return lo, hi, nil
}

// around returns steps before and after a position.
func (x scale) around(at float64) (before, after int64, err error) {
	before, after, _ = x.run.Steps()
	for after-before > 2 {
		s, err := x.run.Series("step", before, after, 512)
		if err != nil {
			return 0, 0, err
		}
		// The first bucket that ends at or after the position.
		i, _ := slices.BinarySearchFunc(s.Buckets, at, func(b runlog.Bucket, at float64) int { return cmp.Compare(x.of(b), at) })
		lo, hi := before, after
		if i > 0 {
			lo = s.Buckets[i-1].LastStep
		}
		if i < len(s.Buckets) {
			hi = s.Buckets[i].LastStep
		}
		if s.Exact || hi-lo >= after-before {
			return lo, hi, nil
		}
		before, after = lo, hi
	}
	return before, after, nil
}

// clampStep converts without overflow.
func clampStep(v float64) int64 { return int64(min(max(v, 0), 1<<53)) }
