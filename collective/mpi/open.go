package mpi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trireme/collective"
	"trireme/fault"
	"trireme/internal/mpi"
)

// Config configures Open.
type Config struct {
	collective.Config
	Rank, Size int  // as the launcher's variables say
	OpenMPI    bool // mpirun is Open MPI's, else one with MPICH's binary interface
}

// Validate sets defaults and checks values.
func (c *Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	if c.Rank < 0 || c.Rank >= c.Size {
		return fmt.Errorf("collective/mpi: rank %d of %d", c.Rank, c.Size)
	}
	return nil
}

// Open connects a rank to the others. It waits for all of them, up to the time-out.
func Open(ctx context.Context, cfg Config) (collective.World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p, err := mpi.Join(cfg.OpenMPI)
	if err != nil {
		return nil, fmt.Errorf("collective/mpi: %w", err)
	}
	if p.Rank != cfg.Rank || p.Size != cfg.Size {
		return nil, fault.Try(fmt.Errorf("collective/mpi: this is rank %d of %d, but MPI (%s) has it as process %d of %d", cfg.Rank, cfg.Size, p.Library, p.Rank, p.Size),
			"the mpirun that belongs to %s (srun: --mpi=pmix or --mpi=pmi2), with one rank per process, or %s", p.Library, fault.Set("parallel.backend", "tcp"))
	}
	late := errors.New("a rank did not open its world in time")
	limited, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, late)
	defer cancel()
	c, err := p.Dup(limited)
	if err != nil {
		return nil, fmt.Errorf("collective/mpi: rank %d of %d: %w", cfg.Rank, cfg.Size, err)
	}
	return collective.NewWorld(cfg.Rank, cfg.Size, newTransport(p, c, cfg), cfg.Config)
}

// finalizeWait limits the wait for other ranks at the end. Those of a failed job may never come.
const finalizeWait = 3 * time.Second

// Finalize ends MPI on this process, if Open or Share began it: mpirun takes a process that exits without it
// for a failed one.
func Finalize() {
	if p := mpi.Joined(); p != nil {
		_ = p.Finalize(finalizeWait) // the run is over in any case
	}
}
