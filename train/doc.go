// Package train is the training step, the loop around it, and the configuration of a run.
//
// Stepper.Step (step.go) is one optimizer step. It does not depend on strategy, backend or world
// size. Run (run.go) is the loop; periodic work is a Hook. Model families and the transport come
// from the program, as a model.Registry and a collective.World.
package train
