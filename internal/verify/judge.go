package verify

import (
	"fmt"
	"math"
	"strconv"
)

// Step has the results of a step.
type Step struct {
	Loss     Number `json:"loss"`
	GradNorm Number `json:"grad_norm"`
}

// Number is a float64. As JSON it has all its digits; a number that is not finite is null.
type Number float64

// MarshalJSON writes the shortest text that is this number.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

func (n Number) String() string { return strconv.FormatFloat(float64(n), 'g', -1, 64) }

func (n Number) same(o Number) bool {
	return math.Float64bits(float64(n)) == math.Float64bits(float64(o))
}

// apart returns the difference of two numbers relative to the larger one; infinite if one is not finite.
func (n Number) apart(o Number) float64 {
	a, b := float64(n), float64(o)
	if n.same(o) || a == b {
		return 0
	}
	if d := math.Abs(a-b) / max(math.Abs(a), math.Abs(b)); !math.IsNaN(d) {
		return d
	}
	return math.Inf(1)
}

// Outcome is the result of a run.
type Outcome struct {
	Steps  []Step
	Digest string // of weights and optimizer state after the last step, in hexadecimal digits
}

// Result of a comparison.
type Result string

const (
	Equal   Result = "equal"   // in every bit
	Within  Result = "within"  // its tolerance
	Differs Result = "differs" // although it must not
)

// Difference is the first difference of two runs.
type Difference struct {
	Step      int    `json:"step"`
	What      string `json:"what"` // loss, gradient norm or state
	Reference string `json:"reference"`
	Value     string `json:"value"`
}

func (d Difference) String() string {
	return fmt.Sprintf("first at step %d: %s %s, not %s", d.Step, d.What, d.Value, d.Reference)
}

// Judge compares a trial's outcome with the reference's. largest is the largest relative difference of a loss or
// gradient norm. A run of another number of steps differs.
func Judge(t Trial, reference, got Outcome) (r Result, first *Difference, largest float64) {
	note := func(d Difference) {
		if first == nil {
			first = &d
		}
	}
	for i := range max(len(reference.Steps), len(got.Steps)) {
		if i >= len(reference.Steps) || i >= len(got.Steps) {
			note(Difference{i + 1, "number of steps", strconv.Itoa(len(reference.Steps)), strconv.Itoa(len(got.Steps))})
			return Differs, first, math.Inf(1)
		}
		want, have := reference.Steps[i], got.Steps[i]
		for _, v := range []struct {
			what       string
			want, have Number
		}{{"loss", want.Loss, have.Loss}, {"gradient norm", want.GradNorm, have.GradNorm}} {
			if !v.want.same(v.have) {
				note(Difference{i + 1, v.what, v.want.String(), v.have.String()})
			}
			largest = max(largest, v.want.apart(v.have))
		}
	}
	if reference.Digest != got.Digest {
		note(Difference{len(reference.Steps), "state", short(reference.Digest), short(got.Digest)})
	}
	switch {
	case first == nil:
		return Equal, nil, 0
	case t.Tolerance > 0 && largest <= t.Tolerance:
		return Within, first, largest
	}
	return Differs, first, largest
}

// short is the start of a digest for tables.
func short(digest string) string { return digest[:min(12, len(digest))] }
