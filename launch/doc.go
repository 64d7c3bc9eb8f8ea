// Package launch starts the worker processes of a job on this machine, watches them, and
// leaves none behind. It is also the workers' side of that bond. It does not join them to a
// world (rendezvous does) and knows nothing of training; any program can be launched.
//
// Run is the launcher's side:
//
//	code, err := launch.Run(ctx, launch.Config{Nproc: 2, Command: []string{exe, "train", "--config", "run.yaml"}, LogDir: "logs"})
//
// Every worker has torchrun's variables, a process group of its own, and its output read by
// the launcher: rank 0's goes on to the terminal, each rank's to a log, and the last lines of
// each are remembered. The first worker to fail ends the others (SIGTERM, then SIGKILL), and
// the error (a *Failure) says which it was, how it ended, and whether the kernel killed it
// for want of memory. A rank that ends only because another hangs, is stopped or was lost says so
// by Blame, and the error names that other one, with CodePeerLost. If restarts are left, all start again.
//
// Signals: SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 are handed to the workers once, which end at
// the next step with a checkpoint and code 75; another SIGINT kills them at once (130).
// SIGQUIT is always handed on. SIGHUP is ignored: a job outlives its terminal.
//
// # No orphans
//
// Workers must end when the launcher does, even if it is killed. Each holds the reading end
// of a pipe whose writing end only the launcher has; a worker that calls TieToParent ends,
// with its process group, when the pipe closes. On Linux the kernel also kills every direct
// child (PR_SET_PDEATHSIG), of whatever program.
//
// The workers' side is TieToParent, OnStop and Blame.
package launch
