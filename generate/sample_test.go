package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestKeep(t *testing.T) {
	logits := []float32{1, 3, 2, 0}
	kept := func(logits []float32, o Options) (ids []int32, sum float64) {
		c, sum := keep(logits, o)
		for _, x := range c {
			ids = append(ids, x.id)
		}
		slices.Sort(ids)
		return ids, sum
	}
	for _, x := range []struct {
		name   string
		logits []float32
		o      Options
		ids    []int32
		sum    float64
	}{
		{"top_k 2", logits, Options{Temperature: 1, TopK: 2}, []int32{1, 2}, 1 + math.Exp(-1)},
		{"top_k above the vocabulary", logits, Options{Temperature: 1, TopK: 9}, []int32{0, 1, 2, 3}, 1 + math.Exp(-1) + math.Exp(-2) + math.Exp(-3)},
		// 0.644, 0.237, 0.087, 0.032: two reach 0.7.
		{"top_p 0.7", logits, Options{Temperature: 1, TopP: 0.7}, []int32{1, 2}, 1 + math.Exp(-1)},
		// 0.881, 0.119 at half the temperature.
		{"top_p 0.7 at temperature 0.5", logits, Options{Temperature: 0.5, TopP: 0.7}, []int32{1}, 1},
		// Of two equal probabilities the first reaches 0.5.
		{"equal", []float32{2, -30, 2}, Options{Temperature: 1, TopP: 0.5, TopK: 2}, []int32{0}, 1},
	} {
		if ids, sum := kept(x.logits, x.o); !slices.Equal(ids, x.ids) || math.Abs(sum-x.sum) > 1e-12 {
			t.Errorf("%s: kept %v with %v, want %v with %v", x.name, ids, sum, x.ids, x.sum)
		}
	}
}

// choose agrees with a full sort, with ties, for every combination of options.
func TestChooseIsThatOfSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 3000 {
		logits := make([]float32, 1+r.IntN(300))
		for i := range logits {
			logits[i] = float32(r.NormFloat64()) * 3
			if round%3 == 0 {
				logits[i] = float32(math.Round(float64(logits[i])))
			}
		}
		switch round % 7 {
		case 0:
			slices.Sort(logits)
		case 1:
			slices.Sort(logits)
			slices.Reverse(logits)
		}
		o := Options{Temperature: 0.2 + 2*r.Float64()}
		if round%2 == 0 {
			o.TopK = 1 + r.IntN(len(logits)+9)
		}
		if round%5 < 3 {
			o.TopP = r.Float64()
		}
		u := r.Float64()
		if got, want := choose(slices.Clone(logits), o, u), sortedChoice(logits, o, u); got != want {
			t.Fatalf("%+v at %v of %v: token %d, want %d", o, u, logits, got, want)
		}
	}
	if got := choose([]float32{1, 3, 3, 0}, Options{}, 0.9); got != 1 {
		t.Errorf("temperature 0 chose %d, want the first of the largest, 1", got)
	}
	if got := choose([]float32{1, 3, 2, 0}, Options{Temperature: 1}, 0); got != 1 {
		t.Errorf("at 0: %d, want the most likely, 1", got)
	}
}

func sortedChoice(logits []float32, o Options, u float64) int32 {
	ids := make([]int32, len(logits))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	if o.TopK > 0 && o.TopK < len(ids) {
		ids = ids[:o.TopK]
	}
	total := func(ids []int32) (sum float64) {
		for _, id := range ids {
			sum += math.Exp(float64(logits[id]-logits[ids[0]]) / o.Temperature)
		}
		return sum
	}
	first := func(target float64) int {
		n := 1
		for n < len(ids) && total(ids[:n]) < target {
			n++
		}
		return n
	}
	if o.TopP > 0 {
		ids = ids[:first(o.TopP*total(ids))]
	}
	return ids[first(u*total(ids))-1]
}

func TestChooseIsDistributed(t *testing.T) {
	logits, counts := []float32{1, 3, 2, 0}, make([]float64, 4)
	const n = 20000
	for i := range n {
		counts[choose(logits, Options{Temperature: 1}, uniform(7, uint64(i)))]++
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v))
	}
	for id, v := range logits {
		if got, want := counts[id]/n, math.Exp(float64(v))/sum; math.Abs(got-want) > 0.015 {
			t.Errorf("token %d was drawn %v of the time, want %v", id, got, want)
		}
	}
}

// BenchmarkChoose draws from large vocabularies.
func BenchmarkChoose(b *testing.B) {
	for _, vocab := range []int{32000, 128256, 262144} {
		r, logits := rand.New(rand.NewPCG(3, 4)), make([]float32, vocab)
		for i := range logits {
			logits[i] = 2 * float32(r.NormFloat64())
		}
		for _, x := range []struct {
			name string
			o    Options
		}{{"all", Options{Temperature: 1}}, {"top_k=50", Options{Temperature: 1, TopK: 50}}, {"top_p=0.9", Options{Temperature: 1, TopP: 0.9}}} {
			b.Run(fmt.Sprint(vocab, "/", x.name), func(b *testing.B) {
				n := uint64(0)
				for b.Loop() {
					n++
					choose(logits, x.o, uniform(1, n))
				}
			})
		}
	}
}
