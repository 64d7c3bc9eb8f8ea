package train

import (
	"math"
	"time"
)

// windowSteps is the number of steps of a record's mean and deviation.
const windowSteps = 20

// window has the times of the last steps, in seconds.
type window struct {
	last [windowSteps]float64
	n    int
}

// add adds a step and returns the mean and the standard deviation of the last ones.
func (w *window) add(s float64) (mean, std float64) {
	w.last[w.n%windowSteps] = s
	w.n++
	all := w.last[:min(w.n, windowSteps)]
	for _, v := range all {
		mean += v / float64(len(all))
	}
	for _, v := range all {
		std += (v - mean) * (v - mean) / float64(len(all))
	}
	return mean, math.Sqrt(std)
}

// between is the time of work between the last step and the next.
type between struct{ save, eval time.Duration }
