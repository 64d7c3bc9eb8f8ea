package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// gemm compares matrix products on one thread.
func (h *harness) gemm(ctx context.Context) error {
	return h.setups([]string{""}, func(s setup) error {
		t := &table{Title: "Matrix products" + s.suffix() + ", 1 thread, GFLOP/s", OurName: "trireme", TheirName: "PyTorch", Comparison: "gemm", DType: s.dtype, Instructions: s.instructions, Products: s.matmul}
		return h.table(t, func(t *table) error { return h.products(ctx, t, s) })
	})
}

// products adds a row for each matrix product, and a note with trireme's peak.
func (h *harness) products(ctx context.Context, t *table, s setup) error {
	var peaks []float64
	var shapes []string
	ours := h.ours("bench", "gemm", "--threads", "1", "--seconds", "0.5", "--dtype", s.dtype, "--instructions", s.instructions, "--float32_matmul", s.matmul)
	theirs := func(ctx context.Context) (object, error) {
		return h.peer.run(s.instructions, h.kernels(s.instructions), "gemm", "--threads", "1", "--seconds", "0.5", "--dtype", s.dtype, "--shapes", strings.Join(shapes, ","))(ctx)
	}
	pairs, err := h.alternate(ctx, t.Title, func(ctx context.Context) (object, error) {
		o, err := ours(ctx)
		if err != nil {
			return nil, err
		}
		speeds, _ := o["gflops"].(object)
		shapes = slices.Sorted(maps.Keys(speeds))
		peak, err := number(o, "fma_peak_gflops")
		peaks = append(peaks, peak)
		return o, err
	}, theirs)
	if err != nil {
		return err
	}
	var rows []row
	for _, shape := range shapes {
		r, err := t.row(shape, pairs, "gflops", shape, "median")
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Peak of trireme's instructions: %.4g GFLOP/s.", median(peaks)))
	return h.add(t, rows...)
}

// operations are the compared collectives and their figure.
var operations = []struct{ name, metric string }{
	{"all_gather_16384KiB_total", "busbw_GBps"},
	{"all_reduce_1024KiB", "busbw_GBps"},
	{"all_reduce_16384KiB", "busbw_GBps"},
	{"all_reduce_4B", "us"},
	{"all_reduce_65536KiB", "busbw_GBps"},
	{"barrier", "us"},
	{"reduce_scatter_16384KiB_total", "busbw_GBps"},
}

// collectives compares collectives of two ranks with gloo's.
func (h *harness) collectives(ctx context.Context) error {
	for _, transport := range h.transports {
		t := &table{Title: "Collectives, 2 processes, " + transport, OurName: "trireme", TheirName: "gloo", Comparison: "collectives"}
		ours := h.ours("bench", "collectives", "--nproc", "2", "--transport", transport)
		theirs := h.peer.run("auto", "", "collectives", "--ranks", "2")
		if err := h.table(t, func(t *table) error { return h.operations(ctx, t, ours, theirs) }); err != nil {
			return err
		}
	}
	return nil
}

// operations adds a row for each operation that both sides measure.
func (h *harness) operations(ctx context.Context, t *table, ours, theirs measurement) error {
	pairs, err := h.alternate(ctx, t.Title, ours, theirs)
	if err != nil {
		return err
	}
	var rows []row
	for _, op := range operations {
		if _, err := number(pairs[0].theirs, "res", op.name, op.metric); err != nil {
			continue // not in every version of gloo
		}
		r, err := t.row(op.name+", "+op.metric, pairs, "res", op.name, op.metric)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return h.add(t, rows...)
}

// mpi compares trireme's collectives between two processes of mpirun over mpi with those over tcp.
func (h *harness) mpi(ctx context.Context) error {
	for _, mpirun := range [][]string{{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"}, {"mpirun.mpich"}} {
		if _, err := exec.LookPath(mpirun[0]); err != nil {
			fmt.Fprintf(h.out, "\nSKIPPED: %v\n", err)
			continue
		}
		t := &table{Title: "Collectives, 2 processes of " + mpirun[0], OurName: "mpi", TheirName: "tcp", Comparison: "mpi"}
		over := func(transport string) measurement {
			return func(ctx context.Context) (object, error) {
				args := append(slices.Clone(mpirun[1:]), "-n", "2", h.trireme, "bench", "collectives", "--transport", transport, "--json")
				return decode(command(ctx, mpirun[0], args...), mpirun[0])
			}
		}
		if err := h.table(t, func(t *table) error { return h.operations(ctx, t, over("mpi"), over("tcp")) }); err != nil {
			return err
		}
	}
	return nil
}
