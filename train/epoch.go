package train

type epochLoss struct {
	Loss   float64 `json:"loss"`   // over all label tokens
	Tokens int64   `json:"tokens"` // label tokens
}

// add accumulates a step, and returns the mean if it is the last of an epoch of perEpoch steps. Skipped
// steps do not count. Epochs of one step have no mean.
func (e *epochLoss) add(o StepResult, step, perEpoch int64) *float64 {
	if o.Applied && o.Tokens > 0 {
		e.Loss += o.Loss * float64(o.Tokens)
		e.Tokens += o.Tokens
	}
	if step%perEpoch != 0 {
		return nil
	}
	sum := *e
	*e = epochLoss{}
	if sum.Tokens == 0 || perEpoch == 1 {
		return nil
	}
	mean := sum.Loss / float64(sum.Tokens)
	return &mean
}
