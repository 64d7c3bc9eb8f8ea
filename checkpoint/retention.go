package checkpoint

import "time"

// Retention selects the checkpoints of a run to keep. A checkpoint is kept if Last, Every or Younger selects it; if
// none of the three is set, all are. Of those, the oldest are deleted while all have more than Bytes. The newest
// checkpoint and protected ones are always kept.
type Retention struct {
	Last    int           // the newest n; 0 selects none
	Every   int           // steps that are multiples of n; 0 selects none
	Younger time.Duration // those of this age or less; 0 selects none
	Bytes   int64         // limit of the sum of sizes; 0 is unlimited
}

// Saved is a valid checkpoint to keep or to delete.
type Saved struct {
	Step      int
	Age       time.Duration
	Bytes     int64
	Protected bool // the best one; it does not count for Retention.Last, unless it is the newest
}

// Keep reports for each checkpoint, newest first, whether it is kept. It is a pure function.
func (r Retention) Keep(all []Saved) []bool {
	keep := make([]bool, len(all))
	unruled := r.Last == 0 && r.Every == 0 && r.Younger == 0
	newest, size := 0, int64(0)
	for i, s := range all {
		if !s.Protected || i == 0 {
			newest++
		}
		keep[i] = unruled || i == 0 || s.Protected || newest <= r.Last || r.Every > 0 && s.Step%r.Every == 0 || r.Younger > 0 && s.Age <= r.Younger
		if keep[i] {
			size += s.Bytes
		}
	}
	for i := len(all) - 1; i > 0 && r.Bytes > 0 && size > r.Bytes; i-- {
		if keep[i] && !all[i].Protected {
			keep[i] = false
			size -= all[i].Bytes
		}
	}
	return keep
}
