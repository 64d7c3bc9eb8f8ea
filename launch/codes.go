package launch

// Exit codes of this program and of workers. They are a contract: schedulers decide by them
// whether to start a job again. A process that dies of a signal counts as 128 + its number.
const (
	CodeDone        = 0
	CodeFailed      = 1
	CodeUsage       = 2   // invalid command line, configuration or input file: not worth a retry
	CodeNo          = 3   // a check's answer is no
	CodeAuth        = 4   // authentication failed
	CodeStopped     = 75  // stopped early, with a good checkpoint
	CodePeerLost    = 76  // a rank hangs, is stopped or was lost
	CodeInterrupted = 130 // ended by SIGINT without a save
	CodeCrashed     = 134 // a mistake in the program itself: Go's runtime ends it by SIGABRT
	CodeTerminated  = 143 // ended by SIGTERM without a save
)
