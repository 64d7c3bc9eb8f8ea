package rundir

// Names in a run's directory.
const (
	Identity    = "run.json"    // the run's identity
	Config      = "config.yaml" // the resolved configuration
	Source      = "source"      // another program's file as it was given, with its ending
	Metrics     = "metrics.jsonl"
	TensorBoard = "tb" // TensorBoard's events
	Memory      = "memory.json"
	Checkpoints = "checkpoints"
	FinalModel  = "final_model"
	EMAModel    = "ema_model" // the average of the weights, beside it
	lockName    = "run.lock"  // what its processes lock
)
