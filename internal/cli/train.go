package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"trireme/data"
	"trireme/flight"
	"trireme/internal/conf"
	"trireme/internal/host"
	"trireme/internal/rundir"
	"trireme/launch"
	"trireme/model"
	"trireme/model/bert"
	"trireme/model/freetransformer"
	"trireme/model/gpt2"
	"trireme/model/llama"
	"trireme/rendezvous"
	"trireme/train"
)

var families = model.Registry{llama.Family, gpt2.Family, bert.Family, freetransformer.Family}

type trainFlags struct {
	config    string
	format    string
	mode      string
	useFSDP   bool
	nproc     ranksFlag
	hosts     launchFlags // of hostFlags
	secret    secretFlags
	sets      []string
	modelName string
	data      string
	outputDir string
	name      string
	moveAside string
	resume    string
	device    string
	plugin    string

	epochs, maxSteps, learningRate, seed string // unparsed

	trace traceFlag

	detach       bool
	dryRun       bool
	json         bool
	runConfig    []conf.Source // the configuration of an evaluated run, instead of a file; nil: none
	noData       bool          // the command reads no data: data.path is optional
	deviceMemory bool          // the device has its own memory
}

func newTrain() *cobra.Command { return newTrainCommand(&trainFlags{}) }

func newTrainCommand(f *trainFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "train",
		Short: "train a model on one or more processes",
		Long: `Train a model. Without --config, --model and --data this runs the built-in recipe: a small
Llama on the source of Go's standard library, in two processes.

Precedence: flag, --set, environment (TRIREME_TRAINING_MAX_STEPS=20), file, default. See
"trireme config keys" for all keys, "trireme init" for a commented file and "trireme recipes"
for examples.

Ctrl-C stops the run after the current step and saves a checkpoint; --resume continues from it.
--detach starts the run in the background: it survives the end of the terminal, and "trireme watch"
shows it.
With --nnodes this command on each machine starts the ranks of one job, as "trireme launch" does.
Started by srun, mpirun or torchrun (RANK, WORLD_SIZE), train runs as one rank of that job.

Errors in the configuration and in input files have exit code 2, and are reported before any rank
starts if possible.`,
		Example: `  trireme train
  trireme train --config run.yaml --nproc 2
  trireme train --model DIR --data train.jsonl --epochs 3 --learning_rate 1e-5
  trireme train --config run.yaml --resume auto
  trireme train --config run.yaml --nnodes 2 --node_rank 0 --master_addr 10.0.0.1 --nproc 8
  trireme train --config run.yaml --dry_run --json`,
		Args: noArgs,
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c) }
	p := c.Flags()
	f.addConfigFlags(p)
	p.Var(&f.nproc, "nproc", "`N` ranks on this machine, or auto: one per GPU with --device cuda, else per NUMA node (default: from --config, or 1; built-in recipe: 2)")
	f.secret.add(p)
	f.hosts.addHostFlags(p)
	p.BoolVar(&f.detach, "detach", false, "run in the background, without this terminal; \"trireme watch DIR\" shows the run")
	p.BoolVar(&f.dryRun, "dry_run", false, "check everything, print the memory that the run needs, and stop")
	p.Var(&f.trace, "trace", "write a trace of `steps=A-B` to OUTPUT_DIR/trace, with ,format=chrome as JSON, with ,format=both as both; may be repeated")
	p.BoolVar(&f.json, "json", false, "print one JSON object at the end")
	return c
}

func (f *trainFlags) run(c *cobra.Command) (err error) {
	if err := f.resolveNproc(); err != nil {
		return err
	}
	if c.Flags().Changed("nproc") && f.nproc < 1 {
		return usage(fmt.Sprintf("--nproc is %d: it must be at least 1", f.nproc), "")
	}
	env, err := f.secret.env()
	if err != nil {
		return err
	}
	if f.detach {
		return f.startDetached(c, env)
	}
	stopOf(c.Context()).Graceful() // until the process exits
	c.SetOut(ignorePipeErrors(c.OutOrStdout()))
	c.SetErr(ignorePipeErrors(c.ErrOrStderr()))
	if c.Flags().Changed("output_dir") && f.outputDir == "" { // likely an unset shell variable
		return usage("--output_dir is empty", "--output_dir DIR, or without the flag for a new runs/NAME-N")
	}
	if f.hosts.launches(c, env) {
		if !f.dryRun {
			if err := detach(f.outputDir); err != nil {
				return err
			}
			return f.hosts.runCommand(c, f.nproc, f.secret, f.logDir())
		}
		if env, err = f.hosts.world(c, f.nproc, f.secret); err != nil {
			return err
		}
	}
	job, err := f.job(c, env)
	if err != nil {
		return err
	}
	defer func() { err = job.stopError(c.Context(), err) }()
	if env, err = f.ranksOf(c, env, job); err != nil {
		return err
	}
	if err := job.setRestart(env); err != nil {
		return err
	}
	_, watched := os.LookupEnv(recordsVar)
	led := env.Launched && (env.Rank > 0 || watched)
	if led && f.dryRun {
		return nil // rank 0 does it for all ranks of another launcher
	}
	if err := job.findRun(env.Launched); err != nil {
		return err
	}
	if env.Launched && !f.dryRun {
		c.SetContext(job.connect(c.Context(), env, c.ErrOrStderr()))
		defer func() {
			if !job.process.taken {
				err = job.process.close(err)
			}
		}()
	}
	if err := job.locate(c.Context(), env, c.ErrOrStderr()); err != nil {
		return err
	}
	if led {
		if !isOwnWorker() { // rank 0 may stop at the same error and never join
			if job.recipe != nil {
				if err := job.prepare(c.Context(), env, io.Discard); err != nil {
					return err
				}
			}
			if err := job.inspect(c.Context(), env.WorldSize, env.LocalWorldSize, io.Discard); err != nil {
				return err
			}
			if env.LocalRank == 0 {
				if err := job.checkMemory(c.Context(), env.LocalWorldSize, c.ErrOrStderr()); err != nil {
					return err
				}
			}
		}
		return job.runWorker(c.Context(), env, c.ErrOrStderr())
	}
	return f.lead(c, env, job)
}

// lead runs the process that the user started, or rank 0 of another launcher: it prepares, starts
// workers or trains as a rank, and prints the summary.
func (f *trainFlags) lead(c *cobra.Command, env rendezvous.Env, j *job) (err error) {
	ctx, stdout, stderr := c.Context(), c.OutOrStdout(), c.ErrOrStderr()
	nproc := f.ranks(env, j)
	if err := j.setProcesses(env, nproc); err != nil {
		return err
	}
	local := nproc
	if env.Launched {
		local = env.LocalWorldSize
	}
	if err := j.checkFile(nproc, local); err != nil {
		return err
	}
	if err := j.warn(stderr); err != nil {
		return err
	}
	if j.recipe != nil {
		if err := j.prepare(ctx, env, stderr); err != nil {
			return err
		}
	}
	if err := j.inspect(ctx, nproc, local, stderr); err != nil {
		return err
	}
	foreseen := j.checkMemory(ctx, local, stderr)
	if f.dryRun {
		if err := j.printDryRun(ctx, stdout, f.json); err != nil {
			return err
		}
		return foreseen
	}
	if foreseen != nil {
		return foreseen
	}
	if j.cfg.Checkpoint.MemoryEveryNSteps() > 0 && !launch.HasMemory(os.LookupEnv) {
		fmt.Fprintln(stderr, "note: checkpoint.tiers: nothing is saved in memory, because no launcher of trireme restarts this job. try: --max_restarts 3")
	}
	if err := ctx.Err(); err != nil { // nothing is written yet
		return err
	}
	if err := j.lockRun(stderr); err != nil {
		var in *rundir.InUseError
		if env.Launched && errors.As(err, &in) { // the other ranks wait for this one
			return j.withWorlds(func(*job, *world) error { return err })
		}
		return err
	}
	defer func() { err = errors.Join(err, j.release()) }()
	card, err := j.openCard(nproc)
	if err != nil {
		return err
	}
	if err := j.printStart(stderr); err != nil {
		return err
	}
	fmt.Fprintln(stderr, describeWorld(string(j.cfg.Parallel.Backend), env, nproc, j.perProc))
	if line := host.WithoutEffect(os.Environ(), string(j.cfg.Device.Name), env.Launched); line != "" {
		fmt.Fprintln(stderr, line)
	}
	if !env.Launched && nproc == 1 {
		stopOf(ctx).SetAtKill(j.atKill(*card, stderr))
	}
	if err = detach(j.cfg.OutputDir); err == nil {
		err = j.stopError(ctx, j.train(ctx, env, nproc, stdout, stderr))
	}
	if noted := errors.Join(card.close(codeOf(err)), j.noteStop(codeOf(err))); err == nil {
		err = noted
	}
	if code := codeOf(err); code == CodeDone || code == CodeStopped {
		reportEnd(j.cfg.OutputDir, stderr)
	}
	switch {
	case err != nil:
		return err
	case f.json:
		return j.writeReport(ctx, stdout, card.Started)
	}
	return j.printSummary(ctx, stdout, card.Started)
}

// prepare makes the files of the recipe, once per machine.
func (j *job) prepare(ctx context.Context, env rendezvous.Env, stderr io.Writer) error {
	if env.LocalRank == 0 {
		if err := j.recipe.Prepare(ctx, stderr); err != nil {
			return err
		}
	}
	if j.process == nil {
		return nil
	}
	return j.process.awaitPrepared()
}

func (j *job) inspect(ctx context.Context, ranks, local int, stderr io.Writer) (err error) {
	if j.model == nil {
		if j.model, err = j.readModel(); err != nil {
			return &Exit{CodeUsage, err}
		}
	}
	t := newTokenizing(stderr, j.dataName())
	var rec *flight.Recorder
	if j.process != nil {
		rec = j.process.conns[0].recorder
	}
	err = untilStopped(ctx, "reading the data", "the same command starts over", func(ctx context.Context) (err error) {
		defer rec.Leave(rec.Enter(flight.Tokenizing, j.dataName()))
		j.summary, err = train.Inspect(ctx, j.cfg, j.model, ranks, local, func(p data.Progress) {
			rec.Detail(p.Path)
			rec.Tick()
			t.report(p)
		})
		return err
	})
	t.close()
	return err
}

func (f *trainFlags) ranks(env rendezvous.Env, j *job) int {
	switch {
	case env.Launched:
		return env.WorldSize
	case f.nproc == 0 && j.recipe != nil:
		return j.recipe.Nproc
	case f.nproc == 0 && j.file != nil:
		return max(1, j.file.Ranks)
	}
	return max(1, int(f.nproc))
}

// train runs this process's ranks or starts workers, and shows their records.
func (j *job) train(ctx context.Context, env rendezvous.Env, nproc int, stdout, stderr io.Writer) error {
	var err error
	screen := openScreen(j.cfg.Logging, stderr)
	screen.judge(j.cfg.OutputDir)
	if !env.Launched && nproc == 1 {
		ctx = j.connect(ctx, env, screen)
	}
	if env.Launched || nproc == 1 {
		err = j.runRanks(ctx, env, screen)
	} else {
		err = j.start(ctx, nproc, stdout, screen)
	}
	if closed := screen.Close(); err == nil {
		err = closed
	}
	return err
}

// start runs this command line as worker processes.
func (j *job) start(ctx context.Context, nproc int, stdout io.Writer, s *screen) error {
	files, err := s.files()
	if err != nil {
		return err
	}
	for name, lock := range j.locks { // rank 0 holds them too, in case this process is killed
		files[name] = lock.File()
	}
	env, err := j.workerEnv()
	if err != nil {
		return err
	}
	stopOf(ctx).SetDumpDir(j.logs(), "launcher")
	j.stepping = true
	w := launch.Config{
		Nproc: nproc / j.perProc, Ranks: j.perProc, Env: env, LogDir: j.logs(), Stdout: stdout, Stderr: s, Files: files,
		Grace: j.cfg.Parallel.Grace(), StoppedTimeout: j.cfg.Parallel.HeartbeatTimeout(), StopGrace: j.cfg.Parallel.StopGrace(),
	}
	if err := bindWorkers(&w, j.numa(), numaKey, nil, s); err != nil {
		return err
	}
	return startWorkers(ctx, w)
}
