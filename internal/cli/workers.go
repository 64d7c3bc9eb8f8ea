package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"trireme/internal/cluster"
	"trireme/launch"
)

// workerVar marks workers of startWorkers.
const workerVar = "TRIREME_WORKER"

// isOwnWorker reports whether this process runs the command line of its launcher, which has prepared the job.
// The workers of trireme launch do not.
func isOwnWorker() bool {
	_, own := os.LookupEnv(workerVar)
	return own && launch.IsWorker(os.LookupEnv)
}

// startWorkers runs this command line as cfg.Nproc workers on this machine, waits for them and returns
// their exit code as an error.
func startWorkers(ctx context.Context, cfg launch.Config) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to start workers: %w", err)
	}
	cfg.Command = append([]string{exe}, os.Args[1:]...)
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	cfg.Env = append(slices.Clone(cfg.Env), workerVar+"=1")
	signals := make(chan os.Signal, 32)
	defer stopOf(ctx).Forward(signals)()
	cfg.Signals = signals
	code, err := cluster.Run(context.WithoutCancel(ctx), cluster.Config{Workers: cfg})
	if err != nil || code != 0 {
		return &Exit{code, err}
	}
	return nil
}
