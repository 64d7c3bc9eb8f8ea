package optim

import "trireme/tensor"

// MaxInFlight is the number of updates whose inputs are written at once. The host may have enqueued
// MaxInFlight-1 steps with unknown outcome.
const MaxInFlight = 4

// Inputs are the inputs of all groups that change per update. Only the device has the count of
// applied updates, so the host writes one table row per possible count and the device selects one.
type Inputs struct {
	// Hyper holds the selected inputs, F64 [groups, longest row], for Optimizer.Step.
	Hyper *tensor.Tensor

	settings []ParamOptions
	table    *tensor.Tensor // F64 [MaxInFlight, groups x longest row]
	counts   *tensor.Tensor // F64 [MaxInFlight, 1]: count of applied updates per row
	count    *tensor.Tensor // F64 [1]: applied updates
	zero     *tensor.Tensor // F64 [1]
	current  *tensor.Tensor // U8 [MaxInFlight, 1]
	selected *tensor.Tensor // as table
}

// Width returns the length of the longest row of inputs.
func Width(settings []ParamOptions) (n int) {
	for _, s := range settings {
		n = max(n, len(s.Optimizer.Hyper(0, 0, 1)))
	}
	return n
}

// NewInputs allocates inputs for one group per setting. The count of applied updates is 0.
func NewInputs(b tensor.Backend, settings []ParamOptions) *Inputs {
	n := Width(settings)
	f64 := func(shape ...int) *tensor.Tensor { return b.New(tensor.Workspace, tensor.F64, shape...) }
	in := &Inputs{
		Hyper: f64(len(settings), n), settings: settings, table: f64(MaxInFlight, len(settings)*n), counts: f64(MaxInFlight, 1), count: f64(1), zero: f64(1),
		current: b.New(tensor.Workspace, tensor.U8, MaxInFlight, 1), selected: f64(MaxInFlight, len(settings)*n),
	}
	b.Fill(in.zero, 0)
	in.Start(b, 0)
	return in
}

// Start sets the count of applied updates.
func (in *Inputs) Start(b tensor.Backend, updates int) {
	b.Upload(in.count, tensor.AsBytes([]float64{float64(updates)}))
}

// Write uploads the inputs of the next updates. Between known and known+MaxInFlight-1 updates were
// applied; rate(n) returns the learning rate of the update after n applied ones.
func (in *Inputs) Write(b tensor.Backend, known int, rate func(update int) float64) {
	table, counts := make([]float64, in.table.Elems()), make([]float64, MaxInFlight)
	for k := range counts {
		counts[k] = float64(known + k)
		lr := rate(known + k)
		for i, s := range in.settings {
			copy(table[k*in.table.Width()+i*in.Hyper.Width():], s.Optimizer.Hyper(lr*s.LRFactor, s.WeightDecay, known+k+1))
		}
	}
	b.Upload(in.table, tensor.AsBytes(table))
	b.Upload(in.counts, tensor.AsBytes(counts))
}

// Next selects the inputs of the next update and increments the count if scalars (F64
// [tensor.ScalarCount]) say that the step applies.
func (in *Inputs) Next(b tensor.Backend, scalars *tensor.Tensor) {
	if len(in.settings) == 0 {
		return
	}
	b.Binary(in.current, in.counts, in.count, tensor.Eq)
	b.Select(in.selected, in.current, in.table, in.zero)
	b.Reduce(in.Hyper.Reshape(in.Hyper.Elems()), in.selected, 0, tensor.Add, tensor.F64)
	b.Binary(in.count, in.count, scalars.Flat(tensor.ScalarApply, tensor.ScalarApply+1), tensor.Add)
}
