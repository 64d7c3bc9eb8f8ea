package rundir

// File names in a run's directory.
const (
	Identity    = "run.json"    // the run's identity
	Config      = "config.yaml" // the resolved configuration
	Source      = "source"      // the original of another program's file, with its extension
	Metrics     = "metrics.jsonl"
	TensorBoard = "tb" // TensorBoard's events
	Events      = "events.jsonl"
	Index       = "index" // of the records, made by readers
	Memory      = "memory.json"
	Checkpoints = "checkpoints"
	FinalModel  = "final_model"
	EMAModel    = "ema_model" // the average of the weights, beside it
	lockName    = "run.lock"  // locked by the run's processes
)
