package generate

import (
	"math"
	"testing"
)

func TestProbabilities(t *testing.T) {
	logits := []float32{1, 3, 2, 0}
	if c := probabilities(logits, Options{}); len(c.ids) != 1 || c.ids[0] != 1 {
		t.Errorf("temperature 0 chose %v, want token 1", c.ids)
	}
	if c := probabilities(logits, Options{Temperature: 1, TopK: 2}); len(c.ids) != 2 || c.ids[0] != 1 || c.ids[1] != 2 ||
		math.Abs(c.p[0]-1/(1+math.Exp(-1))) > 1e-12 {
		t.Errorf("top_k 2 left %v with %v", c.ids, c.p)
	}
	// 0.644, 0.237, 0.087, 0.032: two reach 0.7.
	if c := probabilities(logits, Options{Temperature: 1, TopP: 0.7}); len(c.ids) != 2 {
		t.Errorf("top_p 0.7 left %v", c.ids)
	}
	// Of two equal probabilities the first reaches 0.5.
	if c := probabilities([]float32{2, -30, 2}, Options{Temperature: 1, TopP: 0.5, TopK: 2}); len(c.ids) != 1 || c.ids[0] != 0 || c.p[0] != 1 {
		t.Errorf("top_p 0.5 left %v with %v", c.ids, c.p)
	}
	c := probabilities(logits, Options{Temperature: 1})
	counts := make([]float64, 4)
	const n = 20000
	for i := range n {
		counts[c.sample(uniform(7, uint64(i)))]++
	}
	for i, id := range c.ids {
		if got := counts[id] / n; math.Abs(got-c.p[i]) > 0.015 {
			t.Errorf("token %d was drawn %v of the time, want %v", id, got, c.p[i])
		}
	}
}
