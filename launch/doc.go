// Package launch starts the worker processes of a job on this machine, watches them, and
// leaves none behind. It is also the workers' side of that link. It does not join them to a
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
// by Shutdown.ReportRootCause, and the error names that other one, with CodePeerLost. If restarts are left, all
// start again.
//
// # Signals
//
// A process has one Shutdown from its first moment to its last (HandleSignals): signals end its context, and a
// request is never forgotten. A launcher takes the signals over (Shutdown.Forward) and hands them to Run:
//
//   - SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 reach the workers once, as SIGINT or SIGTERM. They end
//     after the step with a checkpoint and code 75, or at once with 130 or 143 if they have not
//     begun. Another SIGINT kills them (130).
//   - SIGQUIT is handed on to the workers that listen; each writes its stacks to LogDir.
//   - Ctrl-Z stops the workers with the launcher.
//
// A worker that listens says so, and says when it has heard a signal (a pipe that all workers
// inherit). One that does not within Grace is stopped or hangs: it is named and all are killed.
//
// Go's runtime ends a worker that crashes by SIGABRT, so that its code (134) is not taken for code 2,
// and writes the stacks to a file without a name; Run keeps it in LogDir.
//
// # No orphans
//
// Workers must end when the launcher does, even if it is killed. Each holds the reading end
// of a pipe whose writing end only the launcher has; a worker that calls ExitWithParent ends,
// with its process group, when the pipe closes. On Linux the kernel also kills every direct
// child (PR_SET_PDEATHSIG), of whatever program.
//
// The workers' side is ExitWithParent and Shutdown.
package launch
