package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trireme/collective"
	"trireme/internal/bench"
	"trireme/launch"
	"trireme/parallel"
)

func newBenchCollectives() *cobra.Command {
	var nproc, perProc int
	var transport, security string
	var secret secretFlags
	var connections int
	var kib []int
	var seconds float64
	var timeout time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "collectives",
		Short: "measure all-reduce, all-gather and reduce-scatter between processes",
		Long: `Start --nproc worker processes, or join those of a launcher, and measure each operation at several
sizes. Bus bandwidth is defined as in nccl-tests, so it compares to the link for any number of
ranks.`,
		Example: "  trireme bench collectives --nproc 2 --transport shm --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf("transport", transport, transports...); err != nil {
				return err
			}
			if connections < 0 || connections > collective.MaxStripes {
				return usage(fmt.Sprintf("--connections is %d: the limit is %d", connections, collective.MaxStripes), "--connections 0 (by the number of processors)")
			}
			for _, n := range kib {
				if n < 1 || n > 1<<24 {
					return usage(fmt.Sprintf("--kib has %d: sizes are 1 to %d KiB", n, 1<<24), "--kib 1024,65536")
				}
			}
			if nproc < 1 {
				return usage(fmt.Sprintf("--nproc is %d: it must be at least 1", nproc), "--nproc 2")
			}
			if err := oneOf("transport_security", security, parallel.Encrypt.Choices()...); err != nil {
				return err
			}
			if perProc < 1 {
				return usage(fmt.Sprintf("--ranks_per_process is %d: it must be at least 1", perProc), "--ranks_per_process 2")
			}
			if !(seconds >= 0) {
				return usage(fmt.Sprintf("--seconds is %v: it must be 0 or more", seconds), "--seconds 0.6")
			}
			if timeout <= 0 {
				return usage(fmt.Sprintf("--timeout is %v: it must be positive", timeout), "--timeout 1m")
			}
			env, err := secret.env()
			if err != nil {
				return err
			}
			if env, err = processRanks(env, perProc); err != nil {
				return err
			}
			if err := checkRanks(c, env, nproc); err != nil {
				return err
			}
			if !env.Launched && nproc > 1 {
				n, err := ranksPerProcess(nproc, min(nproc, perProc), "--ranks_per_process ")
				if err != nil {
					return err
				}
				return startWorkers(c.Context(), launch.Config{Nproc: nproc / n, Ranks: n, Stdout: c.OutOrStdout(), Stderr: c.ErrOrStderr()})
			}
			p := connect(c.Context(), env, benchWaits(timeout), os.Stderr)
			p.security, p.connections = parallel.Security(security), connections
			report, err := benchCollectives(p, transport, bench.CollectivesOptions{Seconds: seconds, KiB: kib})
			if err != nil || env.Rank != 0 {
				return err
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), report)
			}
			return printCollectives(c.OutOrStdout(), report)
		},
	}
	secret.add(c.Flags())
	c.Flags().IntVar(&nproc, "nproc", 2, "ranks to start")
	c.Flags().IntVar(&perProc, "ranks_per_process", 1, "ranks that each process runs")
	c.Flags().StringVar(&transport, "transport", "auto", "transport between ranks: auto, shm, tcp or mpi (started by mpirun)")
	c.Flags().StringVar(&security, "transport_security", "encrypt", "protection of data between hosts: encrypt or sign")
	c.Flags().IntVar(&connections, "connections", 0, "TCP connections between two ranks in each direction; 0: by the number of processors")
	c.Flags().IntSliceVar(&kib, "kib", nil, "sizes to measure, in KiB, each for all three operations; none: 1 to 65536 for all-reduce, 64 to 16384 for the others")
	c.Flags().Float64Var(&seconds, "seconds", 0, "seconds per measurement; 0: 0.6")
	c.Flags().DurationVar(&timeout, "timeout", time.Minute, "time limit for a rank to wait for others")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

type collectivesReport struct {
	Schema    string `json:"schema"`
	Transport string `json:"transport"`
	bench.CollectivesReport
}

// benchWaits returns the time limits of a benchmark.
func benchWaits(timeout time.Duration) waits { return waits{timeout: timeout, grace: 5 * time.Second} }

// benchCollectives measures as the ranks of this process, and returns the report of the first.
func benchCollectives(p *process, transport string, o bench.CollectivesOptions) (report *collectivesReport, err error) {
	err = p.run(transport, func(w *world) error {
		r, err := bench.Collectives(w.conn.ctx, w, o)
		if w.index == 0 {
			report = &collectivesReport{"trireme.bench.collectives/1", w.transport, r}
		}
		return err
	})
	return report, err
}

func printCollectives(out io.Writer, r *collectivesReport) error {
	fmt.Fprintf(out, "%d ranks over %s; median (best)\n", r.World, r.Transport)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "operation\ttime us\t\tbusbw GB/s\t\tcalls\t")
	for _, name := range slices.SortedFunc(maps.Keys(r.Res), bySize) {
		f := r.Res[name]
		fmt.Fprintf(t, "%s\t%.1f\t(%.1f)\t%.2f\t(%.2f)\t%d\t\n", name, f.Us, f.UsBest, f.Busbw, f.BusbwBest, f.Iterations)
	}
	return t.Flush()
}

// bySize orders names such as all_reduce_64KiB by operation, then by bytes.
func bySize(a, b string) int {
	opA, sizeA := splitSize(a)
	opB, sizeB := splitSize(b)
	return cmp.Or(cmp.Compare(opA, opB), cmp.Compare(sizeA, sizeB))
}

// splitSize splits a name such as all_gather_64KiB_total into all_gather_total and 65536.
func splitSize(name string) (op string, bytes int) {
	parts := strings.Split(name, "_")
	for i, p := range parts {
		var n int
		var unit string
		if k, _ := fmt.Sscanf(p, "%d%s", &n, &unit); k == 2 {
			if unit == "KiB" {
				n <<= 10
			}
			return strings.Join(slices.Delete(parts, i, i+1), "_"), n
		}
	}
	return name, 0
}
