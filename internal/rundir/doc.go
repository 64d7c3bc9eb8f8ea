// Package rundir is the directory of one run: its number, its identity, its lock, and what shows
// that a run lies there.
//
// A run has one directory and a directory one run. Make makes PARENT/NAME-N with the next free N;
// Newest finds the one with the highest N. ExistingRun says what a run has left in a directory, so that
// another does not begin there, and MoveAside renames a directory so that its name is free.
//
// A process holds Lock, and those that inherit Lock.File: the kernel releases it when the last of
// them ends, however it ends. The file says who holds it, for messages alone.
package rundir
