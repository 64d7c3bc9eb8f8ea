package train_test

import (
	"regexp"
	"testing"

	"trireme/device"
	"trireme/model"
)

// Muon trains the matrices of layers in every family, but no embedding, head or classifier.
func TestHiddenMatrices(t *testing.T) {
	others := regexp.MustCompile(`embed|wte|wpe|lm_head|classifier|decoder\.weight|latent`)
	for name, text := range deep {
		b, err := device.Open("meta", device.Options{})
		if err != nil {
			t.Fatal(err)
		}
		config, err := families.ParseConfig(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		m, err := config.Make(b, 8)
		if err != nil {
			t.Fatal(err)
		}
		hidden := 0
		for _, p := range model.Params(m) {
			if want := len(p.Shape) == 2 && !others.MatchString(p.Name); p.Hidden != want {
				t.Errorf("%s: %s %v: hidden %t, want %t", name, p.Name, p.Shape, p.Hidden, want)
			}
			if p.Hidden {
				hidden++
			}
		}
		if hidden < 4 {
			t.Errorf("%s has %d hidden matrices", name, hidden)
		}
		b.Close()
	}
}
