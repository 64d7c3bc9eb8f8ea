package mpi

import (
	"context"
	"fmt"

	"trireme/internal/mpi"
)

// Share returns the values of all ranks, up to 4 KiB each. Ranks call it before they have another connection. It
// fails if MPI has another world than the launcher's variables.
func Share(ctx context.Context, rank, size int, openMPI bool, value []byte) ([][]byte, error) {
	p, err := mpi.Join(openMPI)
	if err != nil {
		return nil, fmt.Errorf("collective/mpi: %w", err)
	}
	if p.Rank != rank || p.Size != size {
		return nil, fmt.Errorf("collective/mpi: this is process %d of %d, but MPI (%s) has it as process %d of %d", rank, size, p.Library, p.Rank, p.Size)
	}
	return p.AllGather(ctx, value)
}
