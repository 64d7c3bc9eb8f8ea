package train

import (
	"strings"
	"testing"
	"time"
)

// A rank that is slow for slowSteps consecutive steps is named once; one slow step resets nothing else.
func TestSlowRanks(t *testing.T) {
	ms := time.Millisecond
	s := slowRanks{name: func(r int) string { return "rank 2 (n1, pid 7)" }}
	notes := 0
	for i := range 3 * slowSteps {
		times := []time.Duration{10 * ms, 11 * ms, 14 * ms, 9 * ms}
		if i == 5 {
			times[2] = 10 * ms
		}
		if i > 30 && i%3 == 0 {
			times[0] = 40 * ms // now and then
		}
		skew, slowest, note := s.step(times)
		if i == 0 && (skew != 1.4 || slowest != 2) {
			t.Errorf("skew %v of rank %d", skew, slowest)
		}
		if note == "" {
			continue
		}
		notes++
		if i != 5+slowSteps || !strings.HasPrefix(note, "rank 2 (n1, pid 7) has been slow for 20 steps: 14ms a step without waiting for others, the median rank takes 10ms (1.40x)") {
			t.Errorf("step %d: %s", i, note)
		}
	}
	if notes != 1 {
		t.Errorf("%d notes", notes)
	}
	if skew, _, note := new(slowRanks).step([]time.Duration{ms}); skew != 0 || note != "" {
		t.Error("one rank has a skew")
	}
	if skew, slowest, _ := new(slowRanks).step([]time.Duration{3 * ms, 2 * ms}); skew != 1.5 || slowest != 0 {
		t.Errorf("of two ranks: %v of rank %d", skew, slowest)
	}
}
