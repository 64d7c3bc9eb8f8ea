package scaling

import (
	"cmp"
	"math"
	"slices"

	"trireme/monitor"
)

// Measurement is a trial in one round.
type Measurement struct {
	TokensPerSecond float64 // over all ranks of one job: the median step; of several jobs their mean
	StepSeconds     float64 // of the median step
	// Exposed and Waiting are the fractions of a step in which the slowest rank waits for data of collectives, and
	// in which the median rank waits for the slowest one.
	Exposed, Waiting float64
	SlowRank         int // the rank that was slowest most often
	Memory           int64
	Resident         int64 // the largest of any rank, bytes
	Losses           []float64
}

// Measure reads the records of a job's steps after the first warmup ones. Losses are of all steps.
func Measure(records []*monitor.Record, warmup int) Measurement {
	var m Measurement
	var speed, seconds, exposed, waiting []float64
	slow := map[int]int{}
	for i, r := range records {
		m.Losses = append(m.Losses, r.Loss)
		if i < warmup {
			continue
		}
		e, w := split(r)
		speed, seconds = append(speed, r.TokensPerSecond()), append(seconds, r.StepSeconds)
		exposed, waiting = append(exposed, e), append(waiting, w)
		slow[r.SlowRank]++
	}
	m.TokensPerSecond, m.StepSeconds = median(speed), median(seconds)
	m.Exposed, m.Waiting = median(exposed), median(waiting)
	for rank, n := range slow {
		if best := slow[m.SlowRank]; n > best || n == best && rank < m.SlowRank {
			m.SlowRank = rank
		}
	}
	return m
}

// split returns Exposed and Waiting of a step. The slowest rank waits for nobody, so its waits are for data.
// Without the times of all ranks it estimates them from rank 0's and the skew.
func split(r *monitor.Record) (exposed, waiting float64) {
	if r.WorldSize < 2 {
		return 0, 0
	}
	slowest, typical := 1-r.CommFraction, 1-r.CommFraction
	if t := r.Ranks; t != nil && len(t.Own) > 0 && len(t.Own) == len(t.Comm) {
		period := 0.0
		for i := range t.Own {
			period = max(period, t.Own[i]+t.Comm[i])
		}
		own := slices.Sorted(slices.Values(t.Own))
		slowest, typical = own[len(own)-1]/period, own[(len(own)-1)/2]/period
	} else if r.Skew > 0 && r.SlowRank == 0 {
		typical = slowest / r.Skew
	} else if r.Skew > 0 {
		slowest = min(1, typical*r.Skew)
	}
	return clamp(1 - slowest), clamp(slowest - typical)
}

func clamp(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(1, max(0, x))
}

// Together returns the measurement of several jobs at the same time: their mean speed, and the largest memory.
func Together(jobs []Measurement) Measurement {
	m := jobs[0]
	m.TokensPerSecond, m.StepSeconds = 0, 0
	for _, j := range jobs {
		m.TokensPerSecond += j.TokensPerSecond / float64(len(jobs))
		m.StepSeconds += j.StepSeconds / float64(len(jobs))
		m.Memory, m.Resident = max(m.Memory, j.Memory), max(m.Resident, j.Resident)
	}
	return m
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// equalBits reports whether all lists have the same numbers, bit by bit, and which first differ.
func equalBits(lists [][]float64) bool {
	for _, l := range lists {
		if slices.CompareFunc(l, lists[0], func(a, b float64) int {
			return cmp.Compare(math.Float64bits(a), math.Float64bits(b))
		}) != 0 {
			return false
		}
	}
	return true
}
