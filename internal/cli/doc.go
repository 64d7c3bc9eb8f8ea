// Package cli is the command line: it reads flags and the environment, hands typed values to
// the packages below, and turns their errors into messages and exit codes. It decides nothing
// about training.
//
// Main runs one command line. Each command is one file with a function that returns it,
// listed in root.go:
//
//	func newVersion() *cobra.Command
//
// A command writes data to its standard output and everything else to its standard error, and
// returns an error; it never exits or prints an error itself. What an error becomes is decided
// in report.go alone: Exit gives it a code, Problem the place and a way out, and what other
// packages return is recognised by its type.
//
// A command that needs several processes starts this same binary with the same arguments;
// a worker knows that it is one from the environment (package rendezvous).
package cli
