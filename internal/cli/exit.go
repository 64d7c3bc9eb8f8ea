package cli

// Exit codes. They are a contract: schedulers decide by them whether to start again.
const (
	CodeDone        = 0
	CodeFailed      = 1
	CodeUsage       = 2   // command line or configuration: never worth a retry
	CodeNo          = 3   // a check answered no
	CodeAuth        = 4   // authentication
	CodeStopped     = 75  // stopped early, with a good checkpoint
	CodeHang        = 76  // a hang, or a peer was lost
	CodeInterrupted = 130 // SIGINT without a save
	CodeTerminated  = 143 // SIGTERM without a save
)

// Exit is an error that decides the exit code. A nil Err exits in silence.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return "exit"
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Problem is an error as its reader needs it.
type Problem struct {
	What  string // what is wrong, in the user's nouns, with numbers; lower case
	Where string // file:line:col, or rank, host and step
	Why   string // if known
	Try   string // one command or line to paste
	Err   error  // the cause, for errors.Is; it is not printed
}

func (p *Problem) Error() string { return p.What }

func (p *Problem) Unwrap() error { return p.Err }

// usage is a mistake in the command line.
func usage(what, try string) error {
	return &Exit{CodeUsage, &Problem{What: what, Try: try}}
}
