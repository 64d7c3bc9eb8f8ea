package trace

// Split is where the time of a step went, in seconds. The categories sum to the step's time.
type Split struct {
	Data      float64 `json:"data"`      // waits for the loader's batch
	Forward   float64 `json:"forward"`   // computes units
	Backward  float64 `json:"backward"`  // computes units
	Recompute float64 `json:"recompute"` // computes units' second forward
	Optimizer float64 `json:"optimizer"` // the update
	Publish   float64 `json:"publish"`   // starts sending new parameters
	Offload   float64 `json:"offload"`   // waits for files of offloaded state or activations
	Comm      float64 `json:"comm"`      // waits for data of a collective: exposed transfer
	Wait      float64 `json:"wait"`      // waits in a collective for a slower rank
	Program   float64 `json:"program"`   // waits for a compiled program, which includes its communication
	Other     float64 `json:"other"`     // the rest: uploads, compiling, the loop
}

// Sum returns the sum of the categories.
func (s Split) Sum() float64 {
	return s.Data + s.Forward + s.Backward + s.Recompute + s.Optimizer + s.Publish + s.Offload + s.Comm + s.Wait + s.Program + s.Other
}

// Add returns the sum of two splits.
func (s Split) Add(o Split) Split {
	return Split{
		s.Data + o.Data, s.Forward + o.Forward, s.Backward + o.Backward, s.Recompute + o.Recompute, s.Optimizer + o.Optimizer,
		s.Publish + o.Publish, s.Offload + o.Offload, s.Comm + o.Comm, s.Wait + o.Wait, s.Program + o.Program, s.Other + o.Other,
	}
}

// Scale returns the split times f.
func (s Split) Scale(f float64) Split {
	return Split{
		s.Data * f, s.Forward * f, s.Backward * f, s.Recompute * f, s.Optimizer * f, s.Publish * f, s.Offload * f, s.Comm * f,
		s.Wait * f, s.Program * f, s.Other * f,
	}
}

// CommOp sums the collectives of one operation and axis in a step.
type CommOp struct {
	Count   int     `json:"count"`
	Bytes   int64   `json:"bytes"`   // Span.Bytes
	Seconds float64 `json:"seconds"` // from the start on this rank to the end
	Exposed float64 `json:"exposed"` // of them, the seconds that computation waited: for data and for slower ranks
}
