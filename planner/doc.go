// Package planner predicts the memory, traffic and FLOPs of a run. Job.Run runs one step of a
// configuration with the code of a run (train.Config.Build), on the meta backend with groups that only
// count bytes. It has no formulas of its own that could drift from the engine.
package planner
