package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"trireme/internal/bench"
)

// ours is trireme as it is by default, ourFast without the promise of the same bits in every run, which
// neither peer makes.
const ours, ourFast = "trireme", "trireme_nondeterministic"

// programs are those of a round, in order.
var programs = []string{ours, ourFast, "torch", "jax"}

// speed measures rounds of all programs on all configurations. All configurations have a first round before
// one has a second, so that little time means fewer rounds. After the first, trireme starts once more, for
// the time to its first step with cached programs.
func (h *harness) speed(ctx context.Context) error {
	configs, dtype, steps := h.configs, "bfloat16", 20
	if h.small {
		configs, dtype, steps = []string{"A"}, "float32", 2
	}
	for _, config := range configs {
		h.report.Speed = append(h.report.Speed, &speedReport{Config: config, DType: dtype, Runs: []*speedRun{}})
	}
	var failures []error
	for round := range h.pairs {
		for _, s := range h.report.Speed {
			for _, program := range programs {
				if s.failed(program) {
					continue
				}
				cached := []bool{false}
				if program == ours && round == 0 {
					cached = append(cached, true)
				}
				for _, c := range cached {
					r := &speedRun{Program: program, Round: round + 1, Cached: c}
					if err := h.measure(ctx, s, r, steps); err != nil {
						r.Error = err.Error()
						failures = append(failures, fmt.Errorf("%s on %s: %w", program, s.Config, err))
					}
					s.Runs = append(s.Runs, r)
					s.sum()
					if err := h.write(); err != nil {
						return err
					}
					if r.Error != "" {
						break
					}
				}
			}
		}
	}
	return errors.Join(failures...)
}

// measure runs a program once.
func (h *harness) measure(ctx context.Context, s *speedReport, r *speedRun, steps int) (err error) {
	const limit = 3 * time.Minute
	warmup := 3
	if r.Cached {
		steps, warmup = 1, 0
	}
	length := []string{"--steps", strconv.Itoa(steps), "--warmup", strconv.Itoa(warmup)}
	fmt.Fprintf(os.Stderr, "  %s, round %d: %s\n", s.Config, r.Round, r.Program)
	if r.Program == ours || r.Program == ourFast {
		args := append(h.stepArgs(s.Config, s.DType), length...)
		args = append(args, "--threads", strconv.Itoa(runtime.NumCPU()), "--deterministic="+strconv.FormatBool(r.Program == ours))
		if h.peakTFLOPS > 0 {
			args = append(args, "--peak_gflops", strconv.FormatFloat(1000*h.peakTFLOPS, 'g', -1, 64))
		}
		r.Output, err = h.triremeChild(limit, args...).object(ctx)
		return err
	}
	device := "cuda"
	if h.small {
		device = "cpu"
	}
	args := append([]string{h.python, "bench/gpu/" + r.Program + "_peer.py", "--config", s.Config, "--dtype", s.DType, "--device", device}, length...)
	r.Output, err = child{args: args, env: h.cacheEnv(), limit: limit}.object(ctx)
	return err
}

// failed reports whether a run of the program failed, so that no more are tried.
func (s *speedReport) failed(program string) bool {
	for _, r := range s.Runs {
		if r.Program == program && r.Error != "" {
			return true
		}
	}
	return false
}

// sum computes the medians and ratios of the runs so far.
func (s *speedReport) sum() {
	s.Medians, s.Ratios = map[string]figures{}, map[string]float64{}
	rounds := map[string]map[int]float64{} // tokens/s
	ratios := map[string][]float64{}
	for _, program := range programs {
		var tokens, peaks, first, later []float64
		rounds[program] = map[int]float64{}
		for _, r := range s.Runs {
			if r.Program != program || r.Error != "" {
				continue
			}
			if r.Round == 1 && !r.Cached {
				first = append(first, number(r.Output, "first_step_s"))
			} else {
				later = append(later, number(r.Output, "first_step_s"))
			}
			if r.Cached {
				continue
			}
			tokens, peaks = append(tokens, number(r.Output, "tokens_per_s")), append(peaks, number(r.Output, "device_peak_mib"))
			rounds[program][r.Round] = tokens[len(tokens)-1]
		}
		if len(tokens) == 0 {
			continue
		}
		f := figures{TokensPerS: bench.Median(tokens), DevicePeakMiB: bench.Median(peaks), FirstStepS: bench.Median(first), CachedStepS: bench.Median(later)}
		if perToken := s.mfuPerToken(); perToken > 0 {
			mfu := perToken * f.TokensPerS
			f.MFU = &mfu
		}
		s.Medians[program] = f
		for round, theirs := range rounds[program] {
			if own := rounds[ours][round]; program != ours && own > 0 && theirs > 0 {
				ratios[program] = append(ratios[program], own/theirs)
			}
		}
		if len(ratios[program]) > 0 {
			s.Ratios[program] = bench.Median(ratios[program])
		}
	}
}

// mfuPerToken is the MFU of one token per second, as trireme counts operations; 0 if the card's peak is
// unknown.
func (s *speedReport) mfuPerToken() float64 {
	for _, r := range s.Runs {
		if tokens := number(r.Output, "tokens_per_s"); r.Program == ours && tokens > 0 {
			return number(r.Output, "mfu") / tokens
		}
	}
	return 0
}
