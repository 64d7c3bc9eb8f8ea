// Package train is the training step, the loop around it, and the configuration of a run.
//
// Step (step.go) is one optimizer step, read straight down; it contains no test of strategy,
// backend or world size. Run (run.go) owns what a run is made of and iterates steps; everything
// periodic is a Hook. The package knows no model family and no transport: a program hands it a
// model.Registry and a collective.World.
package train
