package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trireme/device"
	"trireme/internal/bench"
	"trireme/launch"
	"trireme/parallel"
	"trireme/planner"
	"trireme/rendezvous"
	"trireme/tensor"
)

type benchStepFlags struct {
	options   bench.StepOptions
	dtype     string
	nproc     int
	secret    secretFlags
	perProc   int
	device    device.Config
	transport string
	timeout   time.Duration
	json      bool
}

func newBenchStep() *cobra.Command {
	f := &benchStepFlags{device: device.DefaultConfig()}
	c := &cobra.Command{
		Use:   "step",
		Short: "measure training steps of a model",
		Long: `Train on random tokens and print the median and the best step of rank 0. The models are Llamas:
  A  4 layers of width 256, vocabulary 512, 8 sequences of 256 positions per rank
  B  6 layers of width 512, vocabulary 8192, 4 sequences of 512
  C  12 layers of width 768, vocabulary 32000, 2 sequences of 512
and
  gpt2  GPT-2 of 124 million parameters, 2 sequences of 256, without dropout
  bert  BERT-base classifying 4 sequences of 128, with dropout
and for GPUs
  gpt2-1k      GPT-2 of 124 million parameters, 16 sequences of 1024
  llama-1b     a Llama of 16 layers of width 2048, 8 sequences of 1024; llama-1b-4k: 2 of 4096
MFU counts full attention, relative to the peak measured right after the steps (fused multiply-adds,
or bfloat16 products if the processor is faster by them). The time to the end of the first step
starts with this command, before workers.`,
		Example: "  trireme bench step --config B --threads 1 --nproc 2 --steps 20 --json",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	p.StringVar(&f.options.Config, "config", "A", "model: "+strings.Join(bench.StepNames(), ", "))
	p.IntVar(&f.options.Threads, "threads", 1, "threads per rank")
	f.secret.add(p)
	p.IntVar(&f.nproc, "nproc", 1, "ranks to start")
	p.IntVar(&f.perProc, "ranks_per_process", 0, "ranks that each process runs; 0: 1 on cpu, all of this machine on other devices")
	p.IntVar(&f.options.Steps, "steps", 20, "steps to measure")
	p.IntVar(&f.options.Warmup, "warmup", 3, "steps before the measured ones")
	p.StringVar(&f.options.Strategy, "strategy", "full_shard", "sharding strategy")
	p.StringVar(&f.dtype, "dtype", "float32", "type of parameters in computation and of activations: float32, bfloat16 or float16")
	p.StringVar((*string)(&f.device.Name), "device", "cpu", "device: cpu, cuda, xla or tpu")
	addInstructions(p, &f.device.Instructions)
	addFloat32Matmul(p, &f.device.Float32Matmul)
	p.StringVar(&f.device.Plugin, "plugin", "", "PJRT plug-in `FILE` of the device")
	p.BoolVar(&f.device.Deterministic, "deterministic", true, "cuda: only operations that give the same bits in every run")
	p.Float64Var(&f.options.PeakGFLOPS, "peak_gflops", 0, "peak GFLOP/s of a rank, for mfu; 0: measured on cpu, by the card's name on cuda")
	p.Float64Var(&f.options.Clip, "clip", 0, "maximum gradient norm; 0: no clipping")
	p.StringVar(&f.options.Recompute, "recompute", "", "recompute in backward: "+strings.Join(recomputations(), ", ")+" (default without a value: layers)")
	p.Lookup("recompute").NoOptDefVal = "layers"
	for flag, values := range map[string][]string{"config": bench.StepNames(), "recompute": recomputations()} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // cannot fail: the flags exist
	}
	p.StringVar(&f.transport, "transport", "auto", "transport between ranks: auto, shm, tcp or mpi (started by mpirun)")
	p.DurationVar(&f.timeout, "timeout", time.Minute, "time limit for a rank to wait for others")
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *benchStepFlags) check() error {
	if err := oneOf("dtype", f.dtype, "float32", "bfloat16", "float16"); err != nil {
		return err
	}
	f.options.Precision.Param, _ = tensor.ParseDType(f.dtype)
	o := f.options
	if err := oneOf("config", o.Config, bench.StepNames()...); err != nil {
		return err
	}
	if o.Recompute != "" {
		if err := oneOf("recompute", o.Recompute, recomputations()...); err != nil {
			return err
		}
	}
	if err := oneOf("transport", f.transport, transports...); err != nil {
		return err
	}
	if f.device.Name == device.XLA && f.device.Plugin == "" {
		return usage("--device xla needs the file of a plug-in", "--plugin FILE.so")
	}
	if err := useInstructions(f.device.Instructions); err != nil {
		return err
	}
	if err := oneOf("float32_matmul", string(f.device.Float32Matmul), f.device.Float32Matmul.Choices()...); err != nil {
		return err
	}
	if err := f.device.Validate(); err != nil {
		return &Exit{CodeUsage, err}
	}
	for _, n := range []struct {
		flag       string
		value, min int
	}{{"threads", o.Threads, 1}, {"nproc", f.nproc, 1}, {"ranks_per_process", f.perProc, 0}, {"steps", o.Steps, 1}, {"warmup", o.Warmup, 0}} {
		if n.value < n.min {
			return usage(fmt.Sprintf("--%s is %d: it must be at least %d", n.flag, n.value, n.min), "")
		}
	}
	if f.timeout <= 0 {
		return usage(fmt.Sprintf("--timeout is %v: it must be positive", f.timeout), "--timeout 1m")
	}
	if !(o.Clip >= 0) {
		return usage(fmt.Sprintf("--clip is %v: it must be 0 or more", o.Clip), "")
	}
	p := parallel.Default()
	p.Strategy = o.Strategy
	if err := p.Validate(); err != nil {
		return usage("--strategy: "+err.Error(), "")
	}
	return nil
}

func (f *benchStepFlags) run(c *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	f.device.ProcessRanks = f.perProc
	env, err := f.secret.env()
	if err != nil {
		return err
	}
	if env, err = processRanks(env, f.perProc); err != nil {
		return err
	}
	if err := checkRanks(c, env, f.nproc); err != nil {
		return err
	}
	if !env.Launched && f.nproc > 1 {
		n, err := ranksPerProcess(f.nproc, f.device.RanksPerProcess(f.nproc), "--ranks_per_process ")
		if err != nil {
			return err
		}
		vars, err := startTimeEnv()
		if err != nil {
			return err
		}
		return startWorkers(c.Context(), launch.Config{Nproc: f.nproc / n, Ranks: n, Env: vars, Stdout: c.OutOrStdout(), Stderr: c.ErrOrStderr()})
	}
	r, err := f.measure(c.Context(), env)
	if err != nil || env.Rank != 0 {
		return err
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), r)
	}
	return r.print(c.OutOrStdout())
}

type stepReport struct {
	Schema    string `json:"schema"`
	Transport string `json:"transport"`
	Kernels   string `json:"kernels"` // of cpu
	bench.StepReport
}

// measure measures as the ranks of this process, and returns the report of the first.
func (f *benchStepFlags) measure(ctx context.Context, env rendezvous.Env) (report *stepReport, err error) {
	o := f.options
	if o.PeakGFLOPS == 0 {
		o.PeakGFLOPS = f.device.PeakFLOPS(o.Precision.Param) / 1e9
	}
	if o.Began, err = startTime(); err != nil {
		return nil, err
	}
	err = connect(ctx, env, benchWaits(f.timeout), os.Stderr).run(f.transport, func(w *world) (err error) {
		plan, err := f.plan(w.conn.ctx, w.env)
		if err != nil {
			return err
		}
		o := o
		o.Trace = w.conn.trace
		c := f.device
		c.Threads = o.Threads
		b, err := c.Open(w.device(), w.Arena(), w.env.LocalWorldSize, &plan.Memory)
		if err != nil {
			return err
		}
		r, err := bench.Step(w.conn.ctx, b, device.World(b, w), o)
		if w.index == 0 {
			report = &stepReport{"trireme.bench.step/1", w.transport, readVersion().Kernels, r}
		}
		return errors.Join(err, b.Close())
	})
	return report, err
}

// plan plans the memory of this rank.
func (f *benchStepFlags) plan(ctx context.Context, env rendezvous.Env) (planner.Plan, error) {
	c := bench.StepConfigs[f.options.Config]
	m, err := c.Config()
	if err != nil {
		return planner.Plan{}, err
	}
	return planner.Job{Config: f.options.TrainConfig(), Model: m, Ranks: env.WorldSize, Positions: c.T}.Run(ctx, env.Rank)
}

// recomputations returns the values of --recompute.
func recomputations() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(bench.Recomputations)), func(n string) bool { return n == "" })
}

func (r *stepReport) print(out io.Writer) error {
	mfu := "n/a"
	if r.MFU != nil {
		mfu = fmt.Sprintf("%.1f%%", 100**r.MFU)
	}
	_, err := fmt.Fprintf(out, `config %s in %s, %d ranks of %d threads, %s kernels, over %s, %s, %d steps
tokens/s      %.1f (best %.1f)
step          %.1f ms (%.1f to %.1f), communication %.1f
compute       %.1f GFLOP/s, causal attention %.1f; MFU %s of %.1f
parameters    %d, %d in matrix products
resident      %d MiB peak
first step    after %.2f s
loss          first %.4f, last %.4f
`, r.Config, r.DType, r.World, r.Threads, r.Kernels, r.Transport, r.Strategy, r.Steps, r.TokensPerS, r.TokensPerSBest,
		r.StepMS, r.StepMSMin, r.StepMSMax, r.CommMS, r.GFLOPS, r.GFLOPSCausal, mfu, r.PeakGFLOPS,
		r.Params, r.ParamsMatMul, r.RSSMiB, r.FirstStepS, r.LossFirst, r.LossLast)
	return err
}
