package train

import (
	"fmt"
	"slices"
	"time"
)

// A rank is slow if it takes slowFactor times the median for slowSteps consecutive steps.
const (
	slowFactor = 1.3
	slowSteps  = 20
)

// slowRanks finds ranks that are slower than the others.
type slowRanks struct {
	name    func(rank int) string // nil: rank N
	steps   []int                 // consecutive steps in which a rank was slow
	spent   []time.Duration       // in them
	typical []time.Duration       // the medians of the same steps
}

// step takes the time of each rank in a step, without its waits for others. It returns the longest over the median
// and that rank, and a note when a rank has been slow for a while. skew is 0 without times.
func (s *slowRanks) step(times []time.Duration) (skew float64, slowest int, note string) {
	if len(times) < 2 {
		return 0, 0, ""
	}
	if s.steps == nil {
		s.steps, s.spent, s.typical = make([]int, len(times)), make([]time.Duration, len(times)), make([]time.Duration, len(times))
	}
	sorted := slices.Sorted(slices.Values(times))
	median := max(sorted[(len(sorted)-1)/2], 1) // of two ranks, the faster one
	for r, t := range times {
		if t > times[slowest] {
			slowest = r
		}
		if float64(t) <= slowFactor*float64(median) {
			s.steps[r], s.spent[r], s.typical[r] = 0, 0, 0
			continue
		}
		s.steps[r]++
		s.spent[r] += t
		s.typical[r] += median
		if s.steps[r] == slowSteps {
			note = s.note(r)
		}
	}
	return float64(times[slowest]) / float64(median), slowest, note
}

func (s *slowRanks) note(r int) string {
	who := fmt.Sprintf("rank %d", r)
	if s.name != nil {
		who = s.name(r)
	}
	return fmt.Sprintf("%s has been slow for %d steps: %v a step without waiting for others, the median rank takes %v (%.2fx)",
		who, s.steps[r], roundTime(s.spent[r]/slowSteps), roundTime(s.typical[r]/slowSteps), float64(s.spent[r])/float64(s.typical[r]))
}

func roundTime(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
