package cli

import "trireme/launch"

// The exit codes are those of package launch, where they are explained.
const (
	CodeDone        = launch.CodeDone
	CodeFailed      = launch.CodeFailed
	CodeUsage       = launch.CodeUsage
	CodeNo          = launch.CodeNo
	CodeAuth        = launch.CodeAuth
	CodeStopped     = launch.CodeStopped
	CodePeerLost    = launch.CodePeerLost
	CodeInterrupted = launch.CodeInterrupted
	CodeCrashed     = launch.CodeCrashed
	CodeTerminated  = launch.CodeTerminated
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
	Text  string // what is wrong, in the user's nouns, with numbers; lower case
	Where string // file:line:col, or the file with the stack
	Why   string // if known
	Try   string // one command or line to paste
	Err   error  // the cause, for errors.Is; it is not printed
}

func (p *Problem) Error() string { return p.Text }

// HasTry says whether Try is known.
func (p *Problem) HasTry() bool { return p.Try != "" }

func (p *Problem) Unwrap() error { return p.Err }

// usage is a mistake in the command line.
func usage(what, try string) error {
	return &Exit{CodeUsage, &Problem{Text: what, Try: try}}
}
