// Package optim implements optimizers, learning rate schedules and loss scaling on one device.
// Package parallel decides which elements each rank updates.
//
// An Optimizer declares its state (Slots) and its inputs per update (Hyper). Most are Elementwise:
// a backend rule updates a Slice, whose elements are sorted by parameter group. Tensorwise
// optimizers (Muon, Adafactor, LAMB) need full parameters and update in phases.
//
// A Grouping maps each parameter to its ParamOptions: optimizer, learning rate factor and weight
// decay. Config constructs optimizers by name. Inputs holds the inputs of the next few updates,
// from which the device selects by its count of applied updates.
package optim
