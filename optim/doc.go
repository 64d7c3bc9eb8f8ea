// Package optim is optimizers, learning-rate schedules and the arithmetic of a step's scalars. It knows
// no ranks: which elements a rank updates is package parallel's to say.
//
// An Optimizer names the state that it keeps (Slots) and the numbers that change by update (Hyper).
// Most are Elementwise: a rule of the backend updates a Slice, whose elements lie in order of groups
// with a row of inputs each. A Tensorwise optimizer (Muon, Adafactor, LAMB) needs whole parameters, and
// goes through its phases with a part of them at a time.
//
// A Grouping gives every parameter its ParamOptions: the optimizer, a factor of the learning rate and weight
// decay. Config makes optimizers of names. Inputs holds the rows of the updates that may come next;
// the device counts those that were applied and takes its own.
package optim
