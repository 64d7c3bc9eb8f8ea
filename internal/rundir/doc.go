// Package rundir manages the directory of a run: number, identity and lock.
//
// A directory holds one run. Make creates PARENT/NAME-N with the next free N; Newest finds the highest
// N. ExistingRun detects a run in a directory, and MoveAside renames the directory.
//
// A process holds Lock together with those that inherit Lock.File. The kernel releases it when the last
// one exits. The file names the owner, for messages only.
package rundir
