package launch

// Exit codes of this program and of workers, on which schedulers rely to restart a job. A process killed by a
// signal has 128 + the signal's number.
const (
	CodeDone        = 0
	CodeFailed      = 1
	CodeUsage       = 2   // invalid command line, configuration or input file: do not retry
	CodeNo          = 3   // a check failed
	CodeAuth        = 4   // authentication failed
	CodeStopped     = 75  // stopped early, with a checkpoint
	CodePeerLost    = 76  // a rank is lost, hung or stopped
	CodeInterrupted = 130 // ended by SIGINT without a checkpoint
	CodeCrashed     = 134 // a bug: Go's runtime ends the process by SIGABRT
	CodeTerminated  = 143 // ended by SIGTERM without a checkpoint
)
