package cli

import "trireme/launch"

// Exit codes, documented in package launch.
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

// Exit is an error with an exit code. A nil Err prints nothing.
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

// Problem is an error message in parts.
type Problem struct {
	Text  string // the error, with numbers; lower case
	Where string // file:line:col, or the file with the stack
	Why   string // if known
	Try   string // a command or line to paste
	Err   error  // the cause, for errors.Is; not printed
}

func (p *Problem) Error() string { return p.Text }

// HasTry reports whether the problem has a suggestion.
func (p *Problem) HasTry() bool { return p.Try != "" }

func (p *Problem) Unwrap() error { return p.Err }

// usage returns an error of the command line.
func usage(what, try string) error {
	return &Exit{CodeUsage, &Problem{Text: what, Try: try}}
}
