// Package cli is the command line. It reads flags and the environment, passes typed values to
// the packages below, and reports their errors as messages and exit codes.
//
// Main runs one command line. Each command has a file with a constructor, listed in root.go:
//
//	func newVersion() *cobra.Command
//
// A command writes data to standard output and everything else to standard error, and returns
// an error. Only report.go prints errors and chooses the exit code: from Exit and Problem, or by
// the type of the error.
//
// A command that needs several processes starts this binary again with the same arguments. A
// worker finds its rank in the environment (package rendezvous).
package cli
