package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A text agrees with itself; blanks agree with nothing.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		s := draw(r)
		if len(s.ids) != 2+length {
			t.Fatalf("%d tokens", len(s.ids))
		}
		a := compare(s, s.letter, s.ids[2:])
		if a.noise != 1 && s.noisy != [length]bool{} || a.prompted != 1 && a.prompted != 0 {
			t.Fatalf("%s with itself: %+v", show(s.ids), a)
		}
		other := make([]int32, length)
		for i := range other {
			other[i] = blank
		}
		if a := compare(s, s.letter, other); a.position != 0 || a.near != 0 || a.noise != 0 || a.prompted != 0 {
			t.Fatalf("%s with blanks: %+v", show(s.ids), a)
		}
	}
}

// Under the logits of an optimal predictor the mean cost is the entropy, and the parts add up.
func TestCost(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const n = 20000
	var mean nats
	for range n {
		s := draw(r).with(3)
		begun, left := false, runLength
		for i := range length {
			id := s.ids[2+i]
			// The remaining starts are equally likely; noise hides a start.
			begin := 1 / float64(max(1, length-runLength+1-i))
			switch {
			case begun && left > 0:
				begin = 1
			case begun || i > length-runLength:
				begin = 0
			}
			v := make([]float32, vocabulary)
			for j := range v {
				v[j] = float32(math.Inf(-1))
			}
			v[3], v[blank], v[noise] = float32(math.Log(begin*15/16)), float32(math.Log((1-begin)*15/16)), float32(math.Log(1./16))
			k := s.cost(v, i)
			if whole := -math.Log(map[int32]float64{3: begin * 15 / 16, blank: (1 - begin) * 15 / 16, noise: 1. / 16}[id]); math.Abs(k.position+k.noise+k.letter-whole) > 1e-5 {
				t.Fatalf("%+v of %v", k, whole)
			}
			mean.position, mean.noise = mean.position+k.position/n, mean.noise+k.noise/n
			if i == s.start {
				begun = true
			}
			if begun {
				left--
			}
		}
	}
	// The predictor sees starts hidden by noise, so 1/16 of the positions cost nothing.
	if math.Abs(mean.noise-unknown.noise) > 0.1 || math.Abs(mean.position-unknown.position) > 0.3 {
		t.Errorf("%+v, unknown %+v", mean, unknown)
	}
}
