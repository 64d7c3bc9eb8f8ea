package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"

	"trireme/internal/bench"
)

// metrics are the figures of a training run.
var metrics = []string{"tokens_per_s", "rss_mib", "first_step_s"}

// setup is a training run of both programs.
type setup struct{ config, threads, dtype, peer, instructions, matmul string }

// suffix is name after a table's title.
func (s setup) suffix() string { return ", " + s.name() }

// name describes types and instructions.
func (s setup) name() string {
	out := s.dtype
	if s.instructions != "auto" {
		out += ", " + s.instructions
	}
	if s.matmul != "auto" {
		out += " by " + s.matmul
	}
	return out
}

// setups calls f with all combinations of instructions, dtypes, ways to multiply and peers. Only float32 is multiplied in several ways.
func (h *harness) setups(peers []string, f func(setup) error) error {
	for _, instructions := range h.instructions {
		for _, dtype := range h.dtypes {
			for _, products := range h.matmul {
				if dtype != "float32" {
					if products != h.matmul[0] {
						continue
					}
					products = "auto"
				}
				for _, p := range peers {
					if err := f(setup{dtype: dtype, peer: p, instructions: instructions, matmul: products}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// ourStep runs trireme's training steps.
func (h *harness) ourStep(s setup, more ...string) measurement {
	args := []string{"bench", "step", "--config", s.config, "--threads", s.threads, "--steps", strconv.Itoa(h.steps), "--dtype", s.dtype, "--instructions", s.instructions, "--float32_matmul", s.matmul}
	return h.ours(append(args, more...)...)
}

// theirStep runs PyTorch's steps of the same model.
func (h *harness) theirStep(s setup, more ...string) measurement {
	c := bench.StepConfigs[s.config]
	args := []string{"step", "--threads", s.threads, "--steps", strconv.Itoa(h.steps), "--dtype", s.dtype}
	for _, n := range []struct {
		flag  string
		value int
	}{{"layers", c.Layers}, {"width", c.Hidden}, {"heads", c.Heads}, {"ffn", c.Intermediate}, {"vocab", c.Vocab}, {"positions", c.T}, {"sequences", c.B}} {
		args = append(args, "--"+n.flag, strconv.Itoa(n.value))
	}
	if s.peer == "compiled" {
		args = append(args, "--compiled")
	}
	run := h.peer.run(s.instructions, h.kernels(s.instructions), append(args, more...)...)
	return func(ctx context.Context) (object, error) {
		o, err := run(ctx)
		if err != nil && s.peer == "compiled" {
			err = fmt.Errorf("%w. torch.compile needs PyTorch 2.x and a C++ compiler; try: -peer eager", err)
		}
		return o, err
	}
}

// compare alternates training runs and adds a row per metric.
func (h *harness) compare(ctx context.Context, t *table, s setup, name string, ours, theirs measurement, metrics ...string) error {
	pairs, err := h.alternate(ctx, t.Title+": "+name, ours, theirs)
	if err != nil {
		return err
	}
	var rows []row
	for _, m := range metrics {
		r, err := t.row(name+": "+m, pairs, m)
		if err != nil {
			return err
		}
		r.Config, r.Threads = s.config, s.threads
		rows = append(rows, r)
	}
	return h.add(t, rows...)
}

// step compares training steps of one rank.
func (h *harness) step(ctx context.Context) error {
	return h.setups(h.peers, func(s setup) error {
		t := &table{Title: "Training steps" + s.suffix() + ", PyTorch " + s.peer, OurName: "trireme", TheirName: "PyTorch", Comparison: "step", DType: s.dtype, Peer: s.peer, Instructions: s.instructions, Products: s.matmul}
		return h.table(t, func(t *table) error {
			for _, s.threads = range h.threads {
				for _, s.config = range h.models("A", "B", "C") {
					if err := h.compare(ctx, t, s, s.config+", "+count(s.threads, "thread"), h.ourStep(s), h.theirStep(s), metrics...); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

// models returns the models of -configs, or else those given.
func (h *harness) models(otherwise ...string) []string {
	if len(h.configs) > 0 {
		return h.configs
	}
	return otherwise
}

// ranks compares two ranks of a thread each that share a model with PyTorch's, and with two independent
// runs of one rank at the same time.
func (h *harness) ranks(ctx context.Context) error {
	for _, transport := range h.transports {
		if err := h.setups(h.peers, func(s setup) error { return h.ranksBesidePyTorch(ctx, transport, s) }); err != nil {
			return err
		}
		if err := h.setups([]string{""}, func(s setup) error { return h.ranksBesideRuns(ctx, transport, s) }); err != nil {
			return err
		}
	}
	return nil
}

// twoRanks runs trireme's training steps on two ranks.
func (h *harness) twoRanks(s setup, transport, strategy string) measurement {
	return h.ourStep(s, "--nproc", "2", "--transport", transport, "--strategy", strategy)
}

// strategies are those of both programs that shard the same.
var strategies = []struct{ ours, theirs, name string }{
	{"full_shard", "fully_shard", "full_shard and fully_shard"},
	{"no_shard", "ddp", "no_shard and DDP"},
}

func (h *harness) ranksBesidePyTorch(ctx context.Context, transport string, s setup) error {
	t := &table{Title: "Two ranks over " + transport + s.suffix() + ", PyTorch " + s.peer + " over gloo", OurName: "trireme", TheirName: "PyTorch", Comparison: "ranks", DType: s.dtype, Peer: s.peer, Instructions: s.instructions, Products: s.matmul}
	s.threads = "1"
	return h.table(t, func(t *table) error {
		for _, s.config = range h.models("B", "C") {
			for _, c := range strategies {
				theirs := h.theirStep(s, "--ranks", "2", "--strategy", c.theirs)
				if err := h.compare(ctx, t, s, s.config+", "+c.name, h.twoRanks(s, transport, c.ours), theirs, metrics...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (h *harness) ranksBesideRuns(ctx context.Context, transport string, s setup) error {
	t := &table{Title: "Two ranks under full_shard over " + transport + s.suffix(), OurName: "two ranks", TheirName: "two runs of one rank", Comparison: "ranks", DType: s.dtype, Instructions: s.instructions, Products: s.matmul}
	s.threads = "1"
	return h.table(t, func(t *table) error {
		for _, s.config = range h.models("B", "C") {
			if err := h.compare(ctx, t, s, s.config, h.twoRanks(s, transport, "full_shard"), both(h.ourStep(s)), "tokens_per_s"); err != nil {
				return err
			}
		}
		return nil
	})
}

// both runs a measurement twice at the same time and adds up tokens_per_s.
func both(run measurement) measurement {
	return func(ctx context.Context) (object, error) {
		var speeds [2]float64
		var errs [2]error
		var wg sync.WaitGroup
		for i := range speeds {
			wg.Go(func() {
				var o object
				if o, errs[i] = run(ctx); errs[i] == nil {
					speeds[i], errs[i] = number(o, "tokens_per_s")
				}
			})
		}
		wg.Wait()
		return object{"tokens_per_s": speeds[0] + speeds[1]}, cmp.Or(errs[0], errs[1])
	}
}
