package optim

import "trireme/tensor"

// MaxInFlight is the number of updates that inputs are written for at a time: the host may have enqueued as
// many steps less one whose outcome it does not know.
const MaxInFlight = 4

// Inputs are the numbers of all groups that change by update. How many updates were applied is known
// on the device only, so the host writes a table with a row for each of the next MaxInFlight counts, and the
// device takes the row of its count.
type Inputs struct {
	// Hyper is the present update's, F64 [groups, the longest row]: the inputs of Optimizer.Step.
	Hyper *tensor.Tensor

	settings []ParamOptions
	table    *tensor.Tensor // F64 [MaxInFlight, groups x the longest row]
	counts   *tensor.Tensor // F64 [MaxInFlight, 1]: the count of applied updates that each row is for
	count    *tensor.Tensor // F64 [1]: applied updates
	zero     *tensor.Tensor // F64 [1]
	mine     *tensor.Tensor // U8 [MaxInFlight, 1]
	picked   *tensor.Tensor // as table
}

// Width is the length of the longest row of inputs.
func Width(settings []ParamOptions) (n int) {
	for _, s := range settings {
		n = max(n, len(s.Optimizer.Hyper(0, 0, 1)))
	}
	return n
}

// NewInputs takes memory for the inputs of settings, a group each. No update was applied.
func NewInputs(b tensor.Backend, settings []ParamOptions) *Inputs {
	n := Width(settings)
	f64 := func(shape ...int) *tensor.Tensor { return b.New(tensor.Workspace, tensor.F64, shape...) }
	in := &Inputs{
		Hyper: f64(len(settings), n), settings: settings, table: f64(MaxInFlight, len(settings)*n), counts: f64(MaxInFlight, 1), count: f64(1), zero: f64(1),
		mine: b.New(tensor.Workspace, tensor.U8, MaxInFlight, 1), picked: f64(MaxInFlight, len(settings)*n),
	}
	b.Fill(in.zero, 0)
	in.Start(b, 0)
	return in
}

// Start sets the count of applied updates.
func (in *Inputs) Start(b tensor.Backend, updates int) {
	b.Upload(in.count, tensor.AsBytes([]float64{float64(updates)}))
}

// Write says what the inputs of the next updates are, of which rate gives the learning rate: known of
// those before were applied, or up to MaxInFlight-1 more.
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

// Next takes the inputs of the update that follows those applied, and counts it where scalars (F64
// [tensor.ScalarCount]) say that it applies.
func (in *Inputs) Next(b tensor.Backend, scalars *tensor.Tensor) {
	if len(in.settings) == 0 {
		return
	}
	b.Binary(in.mine, in.counts, in.count, tensor.Eq)
	b.Select(in.picked, in.mine, in.table, in.zero)
	b.Reduce(in.Hyper.Reshape(in.Hyper.Elems()), in.picked, 0, tensor.Add, tensor.F64)
	b.Binary(in.count, in.count, scalars.Flat(tensor.ScalarApply, tensor.ScalarApply+1), tensor.Add)
}
