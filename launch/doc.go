// Package launch starts the worker processes of a job on this machine, like torchrun's agent: it watches
// them and leaves none behind. It is also the workers' side of that link. It can launch any program. It does
// not connect ranks (rendezvous), and does not restart workers or agree with other machines
// (internal/cluster).
//
// Run is the launcher:
//
//	code, err := launch.Run(ctx, launch.Config{Nproc: 2, Command: []string{exe, "train", "--config", "run.yaml"}, LogDir: "logs"})
//
// Each worker has torchrun's variables and a process group. The launcher reads its output: rank 0's goes to
// the terminal, each rank's to a log, and the last lines are kept. The first worker to fail ends the others
// (SIGTERM, then SIGKILL). The error, a *Failure, says which worker it was, how it ended, and whether the
// kernel killed it for lack of memory. A rank that ends because another is lost, hung or stopped calls
// Shutdown.ReportRootCause, and the error names the other rank, with CodePeerLost.
//
// # Signals
//
// A process has one Shutdown for its whole life (HandleSignals). A stop signal cancels its context and is
// never lost. A launcher forwards signals to Run (Shutdown.Forward):
//
//   - The first SIGINT, SIGTERM, SIGUSR1 or SIGUSR2 is sent to the workers as SIGINT or SIGTERM. They
//     finish the step, save a checkpoint and exit with 75, or exit at once with 130 or 143 before the
//     first step. A second SIGINT kills them (130).
//   - SIGQUIT is sent to the workers that handle signals; each writes its stacks to LogDir.
//   - Ctrl-Z stops the workers with the launcher.
//
// Over a pipe, a worker reports that it handles signals and that it has received one. If it does not
// acknowledge a signal within Grace, it is stopped or hung: the error names it and all workers are killed.
//
// Go's runtime ends a crashed worker by SIGABRT (134, to distinguish it from code 2) and writes the stacks
// to an unnamed file, which Run saves in LogDir.
//
// # No orphans
//
// Workers end with the launcher, even if it is killed. Each worker has the read end of a pipe whose write
// end only the launcher has; ExitWithParent ends the worker's process group when the pipe closes. On Linux
// the kernel also kills every direct child (PR_SET_PDEATHSIG), whatever its program.
//
// The workers' side is ExitWithParent and Shutdown.
package launch
