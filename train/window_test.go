package train

import (
	"math"
	"testing"
)

func TestWindow(t *testing.T) {
	var w window
	if mean, std := w.add(3); mean != 3 || std != 0 {
		t.Errorf("one step: %v, %v", mean, std)
	}
	if mean, std := w.add(5); mean != 4 || std != 1 {
		t.Errorf("two steps: %v, %v", mean, std)
	}
	for range windowSteps {
		w.add(7)
	}
	if mean, std := w.add(7); math.Abs(mean-7) > 1e-12 || std > 1e-9 {
		t.Errorf("older steps count: %v, %v", mean, std)
	}
}
