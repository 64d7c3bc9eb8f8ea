package verify

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func outcome() Outcome {
	return Outcome{Steps: []Step{{7.5, 1.25}, {7.25, 1}, {7, 0.1}}, Digest: strings.Repeat("0a", 32)}
}

// A flipped bit of any number of any step is found where it is, whatever the number is.
func TestEveryBitIsCompared(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := Outcome{Digest: "00"}
		for range 1 + rng.IntN(5) {
			want.Steps = append(want.Steps, Step{Number(math.Float64frombits(rng.Uint64())), Number(math.Float64frombits(rng.Uint64()))})
		}
		got := Outcome{Steps: append([]Step(nil), want.Steps...), Digest: "00"}
		if r, first, largest := Judge(Trial{}, want, got); r != Equal || first != nil || largest != 0 {
			t.Fatalf("%v and itself: %v %v %v", want, r, first, largest)
		}
		at, bit, what := rng.IntN(len(got.Steps)), uint64(1)<<rng.IntN(64), "loss"
		v := &got.Steps[at].Loss
		if rng.IntN(2) == 0 {
			v, what = &got.Steps[at].GradNorm, "gradient norm"
		}
		*v = Number(math.Float64frombits(math.Float64bits(float64(*v)) ^ bit))
		r, first, _ := Judge(Trial{}, want, got)
		if r != Differs || first == nil || first.Step != at+1 || first.What != what {
			t.Fatalf("bit %x of the %s of step %d: %v %v", bit, what, at+1, r, first)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name      string
		tolerance float64
		edit      func(*Outcome)
		want      Result
		first     string
		largest   float64
	}{
		{"same", 0, func(*Outcome) {}, Equal, "", 0},
		{"same within", 1e-3, func(*Outcome) {}, Equal, "", 0},
		{"loss", 0, func(o *Outcome) { o.Steps[1].Loss = Number(math.Nextafter(7.25, 8)) }, Differs, "first at step 2: loss 7.250000000000001, not 7.25", 1.2e-16},
		{"norm first", 0, func(o *Outcome) { o.Steps[1].GradNorm, o.Steps[2].Loss = 2, 14 }, Differs, "first at step 2: gradient norm 2, not 1", 0.5},
		{"state", 0, func(o *Outcome) { o.Digest = "ff" }, Differs, "first at step 3: state ff, not 0a0a0a0a0a0a", 0},
		{"state within", 1e-3, func(o *Outcome) { o.Digest = "ff" }, Within, "first at step 3: state ff, not 0a0a0a0a0a0a", 0},
		{"within", 1e-3, func(o *Outcome) { o.Steps[0].Loss = 7.501 }, Within, "first at step 1: loss 7.501, not 7.5", 0.000133},
		{"outside", 1e-3, func(o *Outcome) { o.Steps[0].Loss = 7.51 }, Differs, "first at step 1: loss 7.51, not 7.5", 0.00133},
		{"not finite", 1e-3, func(o *Outcome) { o.Steps[2].Loss = Number(math.NaN()) }, Differs, "first at step 3: loss NaN, not 7", math.Inf(1)},
		{"zero of the other sign", 0, func(o *Outcome) { o.Steps[2].Loss = 0 }, Differs, "first at step 3: loss 0, not 7", 1},
		{"shorter", 1e-3, func(o *Outcome) { o.Steps = o.Steps[:2] }, Differs, "first at step 3: number of steps 2, not 3", math.Inf(1)},
		{"longer", 0, func(o *Outcome) { o.Steps = append(o.Steps, Step{}) }, Differs, "first at step 4: number of steps 4, not 3", math.Inf(1)},
	} {
		got := outcome()
		c.edit(&got)
		r, first, largest := Judge(Trial{Tolerance: c.tolerance}, outcome(), got)
		text := ""
		if first != nil {
			text = first.String()
		}
		if near := largest == c.largest || math.Abs(largest/c.largest-1) < 0.05; r != c.want || text != c.first || !near {
			t.Errorf("%s: %v, %q, %v; want %v, %q, %v", c.name, r, text, largest, c.want, c.first, c.largest)
		}
	}
}

// Numbers keep their bits in JSON.
func TestNumbersKeepBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		n := Number(math.Float64frombits(rng.Uint64()))
		b, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back *float64
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if finite := !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0); finite != (back != nil) || finite && !n.same(Number(*back)) {
			t.Fatalf("%v is %s, read as %v", n, b, back)
		}
	}
}
