package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A text compared with itself has everything of itself; one of blanks has nothing.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		s := draw(r)
		if len(s.ids) != 2+length {
			t.Fatalf("%d tokens", len(s.ids))
		}
		a := compare(s, s.letter, s.ids[2:])
		if a.noise != 1 && s.noisy != [length]bool{} || a.own != 1 && a.own != 0 {
			t.Fatalf("%s with itself: %+v", show(s.ids), a)
		}
		other := make([]int32, length)
		for i := range other {
			other[i] = blank
		}
		if a := compare(s, s.letter, other); a.position != 0 || a.near != 0 || a.noise != 0 || a.own != 0 {
			t.Fatalf("%s with blanks: %+v", show(s.ids), a)
		}
	}
}

// What a text costs under logits that know nothing but the task is what nobody can know, on average,
// and the three parts are the whole.
func TestCost(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const n = 20000
	var mean nats
	for range n {
		s := draw(r).with(3)
		begun, left := false, run
		for i := range length {
			id := s.ids[2+i]
			// Where a run may begin, each of the places left is as likely; noise hides a beginning.
			begin := 1 / float64(max(1, length-run+1-i))
			switch {
			case begun && left > 0:
				begin = 1
			case begun || i > length-run:
				begin = 0
			}
			v := make([]float32, vocabulary)
			for j := range v {
				v[j] = float32(math.Inf(-1))
			}
			v[3], v[blank], v[noise] = float32(math.Log(begin*15/16)), float32(math.Log((1-begin)*15/16)), float32(math.Log(1./16))
			k := s.cost(v, i)
			if whole := -math.Log(map[int32]float64{3: begin * 15 / 16, blank: (1 - begin) * 15 / 16, noise: 1. / 16}[id]); math.Abs(k.place+k.noise+k.letter-whole) > 1e-5 {
				t.Fatalf("%+v of %v", k, whole)
			}
			mean.place, mean.noise = mean.place+k.place/n, mean.noise+k.noise/n
			if i == s.at {
				begun = true
			}
			if begun {
				left--
			}
		}
	}
	// This reader is told of a beginning that noise hides, so that 1/16 of places cost nothing to tell.
	if math.Abs(mean.noise-unknown.noise) > 0.1 || math.Abs(mean.place-unknown.place) > 0.3 {
		t.Errorf("%+v, unknown %+v", mean, unknown)
	}
}
