package rundir

// State says whether a run goes on, and how it ended.
type State string

const (
	Running State = "running"
	Done    State = "done"
	Stopped State = "stopped" // early: with a checkpoint, or by a signal
	Failed  State = "failed"
	Silent  State = "silent"  // no end is recorded, and no process of this host holds the lock: killed, or on another host
	Unknown State = "unknown" // the directory has no run.json
)

// The exit codes of runs that were stopped: with a checkpoint, by SIGINT and by SIGTERM (package launch).
const (
	codeStopped     = 75
	codeInterrupted = 130
	codeTerminated  = 143
)

// StateOf returns the state of a run by its card and its lock.
func StateOf(dir string, c Card) State {
	if c.Ended == nil {
		switch _, held := Holder(dir); {
		case held:
			return Running
		case c.Started.IsZero():
			return Unknown
		}
		return Silent
	}
	if c.Exit == nil {
		return Done // of a version that recorded no code
	}
	return ExitState(*c.Exit)
}

// ExitState returns the state of a run that ended with an exit code.
func ExitState(code int) State {
	switch code {
	case 0:
		return Done
	case codeStopped, codeInterrupted, codeTerminated:
		return Stopped
	}
	return Failed
}
