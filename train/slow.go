package train

import (
	"fmt"
	"slices"
	"time"

	"trireme/parallel"
)

// A rank is slow if it takes slowFactor times the median for slowSteps consecutive steps. It saves slowly if its part of
// a checkpoint takes slowSave times the median and minSave longer.
const (
	slowFactor = 1.3
	slowSteps  = 20
	slowSave   = 2
	minSave    = time.Second
)

// slowRanks finds ranks that are slower than the others.
type slowRanks struct {
	name    func(rank int) string // nil: rank N
	steps   []int                 // consecutive steps in which a rank was slow
	spent   []time.Duration       // in them
	data    []time.Duration       // of spent, the waits for the rank's batches
	typical []time.Duration       // the medians of the same steps
	saves   []bool                // a slow save of the rank was noted
}

// step takes the times of each rank in a step. It returns the longest own time over the median and that rank, and
// notes when a rank has been slow for a while, or has saved slowly for the first time. skew is 0 without times.
func (s *slowRanks) step(times []parallel.RankTimes) (skew float64, slowest int, notes []string) {
	n := len(times)
	if n < 2 {
		return 0, 0, nil
	}
	if s.steps == nil {
		s.steps, s.saves = make([]int, n), make([]bool, n)
		s.spent, s.data, s.typical = make([]time.Duration, n), make([]time.Duration, n), make([]time.Duration, n)
	}
	median := medianOf(times, func(t parallel.RankTimes) time.Duration { return t.Own })
	save := medianOf(times, func(t parallel.RankTimes) time.Duration { return t.Save })
	for r, t := range times {
		if t.Own > times[slowest].Own {
			slowest = r
		}
		if !s.saves[r] && t.Save > slowSave*save && t.Save > save+minSave {
			s.saves[r] = true
			notes = append(notes, fmt.Sprintf("%s took %v to save its part of a checkpoint, the median rank %v", s.who(r), roundTime(t.Save), roundTime(save)))
		}
		if float64(t.Own) <= slowFactor*float64(median) {
			s.steps[r], s.spent[r], s.data[r], s.typical[r] = 0, 0, 0, 0
			continue
		}
		s.steps[r]++
		s.spent[r] += t.Own
		s.data[r] += t.Data
		s.typical[r] += median
		if s.steps[r] == slowSteps {
			notes = append(notes, s.note(r))
		}
	}
	return float64(times[slowest].Own) / float64(median), slowest, notes
}

// medianOf returns the median of a time of the ranks, at least 1 ns; of two ranks, the lesser one.
func medianOf(times []parallel.RankTimes, of func(parallel.RankTimes) time.Duration) time.Duration {
	all := make([]time.Duration, len(times))
	for i, t := range times {
		all[i] = of(t)
	}
	slices.Sort(all)
	return max(all[(len(all)-1)/2], 1)
}

func (s *slowRanks) note(r int) string {
	note := fmt.Sprintf("%s has been slow for %d steps: %v a step without waiting for others, the median rank takes %v (%.2fx)",
		s.who(r), s.steps[r], roundTime(s.spent[r]/slowSteps), roundTime(s.typical[r]/slowSteps), float64(s.spent[r])/float64(s.typical[r]))
	if 2*s.data[r] > s.spent[r]-s.typical[r] { // data is most of the difference
		note += fmt.Sprintf(": it waits %v for its batch", roundTime(s.data[r]/slowSteps))
	}
	return note
}

func (s *slowRanks) who(r int) string {
	if s.name != nil {
		return s.name(r)
	}
	return fmt.Sprintf("rank %d", r)
}

func roundTime(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
