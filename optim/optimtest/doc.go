// Package optimtest is for tests of optimizers: Step updates one parameter that lies whole on a device,
// with the State that it made, where package parallel would divide them among ranks. It trains
// nothing by itself.
package optimtest
