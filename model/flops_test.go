package model_test

import (
	"testing"

	"trireme/model"
)

// TestPairs: FLOPs count each attended pair once.
func TestPairs(t *testing.T) {
	for n := range int64(9) {
		for _, a := range []model.Attention{{Layers: 1}, {Layers: 3, Causal: true}, {Layers: 2, Causal: true, Window: 1}, {Layers: 1, Causal: true, Window: 4}, {Layers: 1, Causal: true, Window: 20}} {
			pairs := 0
			for q := range int(n) {
				for k := range int(n) {
					if !a.Causal || k <= q && (a.Window == 0 || q-k < a.Window) {
						pairs++
					}
				}
			}
			info := model.Info{Heads: 2, HeadDim: 5, Attention: []model.Attention{a}}
			if got, want := info.FLOPs(n, 0), float64(12*2*5*a.Layers*pairs); got != want {
				t.Errorf("%+v, %d tokens: %v FLOPs, want %v", a, n, got, want)
			}
		}
	}
}
