// Package planner says what a run needs before it starts. It runs the step itself, the model's
// and the engine's own code, on the meta backend with groups that move nothing, and reads every
// byte from the backend's Meter: there is no second arithmetic that could drift.
package planner
