package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"trireme/internal/cluster"
	"trireme/internal/host"
	"trireme/internal/preflight"
)

// preflightOf returns the check of launch --preflight. The first host prints the report. A problem ends the job.
func preflightOf(stderr io.Writer) func(ctx context.Context, c cluster.Check) error {
	return func(ctx context.Context, c cluster.Check) error {
		r, err := preflight.Run(ctx, preflight.Config{
			Exchange: c.Exchange, Index: c.Index, N: c.N, Name: c.Name, Address: c.Address, Key: c.Key, Mode: c.Mode,
			Facts: host.Read(ctx, host.Config{Program: readVersion().Version, Dir: os.TempDir()}),
		})
		if err != nil {
			return err
		}
		if c.Index == 0 {
			if err := r.Print(stderr); err != nil {
				return err
			}
		}
		if f := r.First(); f != nil {
			return fmt.Errorf("the preflight found %s, the first: %s. try: %s", number(int64(r.Problems), "problem"), f.Text, f.Try)
		}
		return nil
	}
}
