// Package planner says what a run needs before it starts. A Job is a configuration, a model and
// a number of ranks; Job.Run makes one step of it: train.Config.Build puts the model, the
// engine and the stepper together as a run does, on the meta backend, with groups that move
// nothing. Bytes are read from the backend's Meter, traffic from the groups, arithmetic from the
// backend: there is no second arithmetic that could drift.
package planner
