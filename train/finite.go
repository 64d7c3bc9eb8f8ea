package train

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"trireme/checkpoint"
)

// nonFiniteAdvice suggests what to do if a loss or a gradient is not finite.
func (r *Run) nonFiniteAdvice() string {
	if r.notFinite != "" {
		return "another model, or download this one again: it has " + r.notFinite
	}
	return fmt.Sprintf("a lower learning_rate (now %.4g), or check the data of this step", r.schedule.At(r.state.Updates))
}

// notFinite names the tensors with NaN or infinite values over all ranks; "" if there are none. All
// ranks call it after load.
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
			return "", fmt.Errorf("train: rank %d sent an invalid message: %w", rank, err)
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
