package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// torchEnv is the fastest environment for PyTorch: no spinning threads, memory kept between steps, and
// AVX-512 kernels on processors that its OpenBLAS does not know.
var torchEnv = []string{
	"OMP_WAIT_POLICY=PASSIVE", "MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=17179869184",
	"MALLOC_TOP_PAD_=268435456", "OPENBLAS_CORETYPE=SkylakeX", "PYTHONWARNINGS=ignore",
}

type harness struct {
	trireme, python, peers string
	pairs, steps           int
	configs, threads       []string
}

func main() {
	h := harness{}
	flag.StringVar(&h.trireme, "trireme", "./trireme", "the program")
	flag.StringVar(&h.python, "python", "/usr/bin/python3", "a python that imports torch")
	flag.StringVar(&h.peers, "peers", "", "directory of the PyTorch scripts")
	flag.IntVar(&h.pairs, "pairs", 5, "pairs of runs")
	flag.IntVar(&h.steps, "steps", 5, "steps of each training run")
	configs := flag.String("configs", "A,B,C", "configurations of step")
	threads := flag.String("threads", "1,2", "numbers of threads of step")
	flag.Parse()
	h.threads = strings.Split(*threads, ",")
	h.configs = strings.Split(*configs, ",")
	if err := h.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (h harness) run(what []string) error {
	if len(what) == 0 {
		return errors.New("bench: no comparison given. try: step, gemm, collectives, mpi, ranks")
	}
	for _, w := range what {
		f := map[string]func() error{"step": h.step, "gemm": h.gemm, "collectives": h.collectives, "mpi": h.mpi, "ranks": h.ranks}[w]
		if f == nil {
			return fmt.Errorf("bench: %q is not one of step, gemm, collectives, mpi, ranks", w)
		}
		if err := f(); err != nil {
			return fmt.Errorf("bench: %s: %w", w, err)
		}
	}
	return nil
}

type object = map[string]any

func (h harness) runTrireme(args ...string) (object, error) {
	return output(exec.Command(h.trireme, append(args, "--json")...))
}

func (h harness) runPyTorch(script string, args ...string) (object, error) {
	c := exec.Command(h.python, append([]string{filepath.Join(h.peers, script)}, args...)...)
	c.Env = append(c.Environ(), torchEnv...)
	return output(c)
}

func output(c *exec.Cmd) (object, error) {
	c.Stderr = os.Stderr
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c.Args, err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var o object
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &o); err != nil {
		return nil, fmt.Errorf("%v: %w", c.Args, err)
	}
	return o, nil
}

func number(o any, keys ...string) float64 {
	for _, k := range keys {
		m, _ := o.(object)
		o = m[k]
	}
	v, _ := o.(float64)
	return v
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

type series struct{ ours, theirs []float64 }

func (s *series) add(ours, theirs float64) {
	s.ours, s.theirs = append(s.ours, ours), append(s.theirs, theirs)
}

func (s *series) ratio() float64 {
	r := make([]float64, len(s.ours))
	for i := range r {
		r[i] = s.ours[i] / s.theirs[i]
	}
	return median(r)
}

func (s *series) row(name string) {
	r := make([]string, len(s.ours))
	for i := range r {
		r[i] = strconv.FormatFloat(s.ours[i]/s.theirs[i], 'f', 2, 64)
	}
	fmt.Printf("| %s | %.4g | %.4g | %.2f | %s |\n", name, median(s.ours), median(s.theirs), s.ratio(), strings.Join(r, " "))
}

func head(title, theirs string) {
	fmt.Printf("\n%s\n\n| figure | trireme | %s | ratio | pairs |\n|---|---|---|---|---|\n", title, theirs)
}

func (h harness) step() error {
	head("training steps", "PyTorch")
	for _, threads := range h.threads {
		for _, config := range h.configs {
			figures := map[string]*series{}
			keys := []string{"tokens_per_s", "rss_mib", "first_step_s"}
			for _, k := range keys {
				figures[k] = &series{}
			}
			for range h.pairs {
				a, err := h.runTrireme("bench", "step", "--config", config, "--threads", threads, "--steps", strconv.Itoa(h.steps))
				if err != nil {
					return err
				}
				b, err := h.runPyTorch("train_torch.py", "--config", config, "--threads", threads, "--steps", strconv.Itoa(h.steps))
				if err != nil {
					return err
				}
				for _, k := range keys {
					figures[k].add(number(a, k), number(b, k))
				}
			}
			for _, k := range keys {
				figures[k].row(fmt.Sprintf("%s, %s threads: %s", config, threads, k))
			}
		}
	}
	return nil
}

func (h harness) gemm() error {
	head("matrix products, one thread, GFLOP/s", "OpenBLAS")
	figures := map[string]*series{}
	var order []string
	var peak []float64
	for range h.pairs {
		a, err := h.runTrireme("bench", "gemm", "--threads", "1", "--seconds", "0.5")
		if err != nil {
			return err
		}
		b, err := h.runPyTorch("sgemm_torch.py", "--threads", "1", "--sec", "0.5")
		if err != nil {
			return err
		}
		shapes, _ := b["gflops"].(object)
		for shape := range shapes {
			if figures[shape] == nil {
				figures[shape] = &series{}
				order = append(order, shape)
			}
			figures[shape].add(number(a, "gflops", shape, "median"), number(b, "gflops", shape, "median"))
		}
		peak = append(peak, number(a, "fma_peak_gflops"))
	}
	slices.Sort(order)
	for _, shape := range order {
		figures[shape].row(shape)
	}
	fmt.Printf("\npeak of fused multiply-adds: %.4g GFLOP/s\n", median(peak))
	return nil
}

func (h harness) collectives() error {
	for _, transport := range []string{"shm", "tcp"} {
		head("collectives, 2 processes, "+transport, "gloo")
		figures := map[string]*series{}
		keys := []string{"all_reduce_4B", "barrier", "all_reduce_1024KiB", "all_reduce_16384KiB", "all_reduce_65536KiB", "all_gather_16384KiB_total"}
		for range h.pairs {
			a, err := h.runTrireme("bench", "collectives", "--nproc", "2", "--transport", transport)
			if err != nil {
				return err
			}
			b, err := h.runPyTorch("coll_torch.py", "--world", "2")
			if err != nil {
				return err
			}
			for _, k := range keys {
				unit := "busbw_GBps"
				if k == "all_reduce_4B" || k == "barrier" {
					unit = "us"
				}
				name := k + ", " + unit
				if figures[name] == nil {
					figures[name] = &series{}
				}
				figures[name].add(number(a, "res", k, unit), number(b, "res", k, unit))
			}
		}
		for _, name := range slices.Sorted(keysOf(figures)) {
			figures[name].row(name)
		}
	}
	return nil
}

// mpi measures collectives of two processes of an mpirun over mpi, beside tcp, in turn.
func (h harness) mpi() error {
	for _, mpirun := range [][]string{{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"}, {"mpirun.mpich"}} {
		if _, err := exec.LookPath(mpirun[0]); err != nil {
			fmt.Printf("\nSKIPPED: %v\n", err)
			continue
		}
		head("collectives, 2 processes of "+mpirun[0]+", mpi", "tcp")
		figures := map[string]*series{}
		for range h.pairs {
			var both [2]object
			for i, transport := range []string{"mpi", "tcp"} {
				args := append(append([]string{}, mpirun[1:]...), "-n", "2", h.trireme, "bench", "collectives", "--transport", transport, "--json")
				var err error
				if both[i], err = output(exec.Command(mpirun[0], args...)); err != nil {
					return err
				}
			}
			for k, unit := range map[string]string{"all_reduce_4B": "us", "barrier": "us", "all_reduce_1024KiB": "busbw_GBps", "all_reduce_16384KiB": "busbw_GBps", "all_reduce_65536KiB": "busbw_GBps"} {
				name := k + ", " + unit
				if figures[name] == nil {
					figures[name] = &series{}
				}
				figures[name].add(number(both[0], "res", k, unit), number(both[1], "res", k, unit))
			}
		}
		for _, name := range slices.Sorted(keysOf(figures)) {
			figures[name].row(name)
		}
	}
	return nil
}

func keysOf(m map[string]*series) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// ranks compares two ranks that share a model with two independent runs at the same time.
func (h harness) ranks() error {
	head("two ranks under full_shard on config B, tokens/s", "two runs of one rank")
	var s series
	steps := strconv.Itoa(h.steps)
	for range h.pairs {
		two, err := h.runTrireme("bench", "step", "--config", "B", "--threads", "1", "--nproc", "2", "--steps", steps)
		if err != nil {
			return err
		}
		var sum [2]float64
		var errs [2]error
		var wg sync.WaitGroup
		for i := range sum {
			wg.Go(func() {
				var o object
				o, errs[i] = h.runTrireme("bench", "step", "--config", "B", "--threads", "1", "--steps", steps)
				sum[i] = number(o, "tokens_per_s")
			})
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		s.add(number(two, "tokens_per_s"), sum[0]+sum[1])
	}
	s.row("tokens_per_s")
	return nil
}
