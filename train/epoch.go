package train

// epochLoss adds up the losses of an epoch's steps.
type epochLoss struct {
	Loss   float64 `json:"loss"`   // over all label tokens
	Tokens int64   `json:"tokens"` // label tokens
}

// add takes a step in, and gives the mean where the step is the last of an epoch of perEpoch steps.
// Skipped steps do not count. An epoch of one step has no mean of its own.
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
