package train

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"trireme/checkpoint"
)

// nonFiniteAdvice is what may help where a loss or a gradient is not finite.
func (r *Run) nonFiniteAdvice() string {
	if r.notFinite != "" {
		return "another model, or fetch this one again: it came with " + r.notFinite
	}
	return fmt.Sprintf("a lower learning_rate (%.4g now), or look at the data of this step", r.schedule.At(r.state.Updates))
}

// notFinite names the tensors of the files that have values which are NaN or infinite, "" where none
// has. All ranks call it after load, with the parts that each has read.
func (w *weights) notFinite(ctx context.Context, ranks checkpoint.ProcessGroup) (string, error) {
	mine, err := json.Marshal(w.nan)
	if err != nil {
		return "", fmt.Errorf("train: %w", err)
	}
	all, err := ranks.AllGatherBytes(ctx, mine)
	if err != nil {
		return "", fmt.Errorf("train: %w", err)
	}
	var names []string
	for rank, b := range all {
		var theirs map[string]bool
		if err := json.Unmarshal(b, &theirs); err != nil {
			return "", fmt.Errorf("train: rank %d sent what cannot be read: %w", rank, err)
		}
		for name := range theirs {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	return "weights that are not finite (NaN or infinite) in " + few(names), nil
}
