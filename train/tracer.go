package train

// Tracer keeps the spans of the steps that a user wants to see. The goroutine that trains calls it.
type Tracer interface {
	// Start notes the first step of the run, or of a resumed one.
	Start(step int64)
	// Request returns the number of steps that this rank asks to trace from the next free one; 0 for none.
	Request() int64
	// AfterStep notes that a step, its evaluation and its checkpoint are done. requested sums Request over all
	// ranks, for the same step on each. next is the first step that has not been enqueued. It must not block.
	AfterStep(step, next, requested int64)
	// Notes returns new notes, one line each.
	Notes() []string
}

// Groups returns the ranks that communicate with this one, itself included, by the name of their group.
func (r *Run) Groups() map[string][]int { return r.engine.Groups() }

// traceStep passes a step that is done to the tracer. inFlight later steps are enqueued.
func (r *Run) traceStep(inFlight int) error {
	if r.deps.Tracer == nil {
		return nil
	}
	r.deps.Tracer.AfterStep(r.state.Step, r.state.Step+int64(inFlight)+1, r.traced)
	r.traced = 0
	for _, n := range r.deps.Tracer.Notes() {
		if err := r.sink.Note(n); err != nil {
			return err
		}
	}
	return nil
}
