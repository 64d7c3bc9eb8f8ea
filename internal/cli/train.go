package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/conf"
	"trireme/launch"
	"trireme/model"
	"trireme/model/llama"
	"trireme/recipes"
	"trireme/rendezvous"
	"trireme/train"
)

// families are the models that this program knows.
var families = model.Registry{llama.Family}

// trainFlags is the command line of train.
type trainFlags struct {
	config    string
	mode      string
	nproc     int
	sets      []string
	modelName string
	outputDir string
	seed      uint64
	resume    string
	dryRun    bool
}

func newTrain() *cobra.Command {
	f := &trainFlags{}
	c := &cobra.Command{
		Use:   "train",
		Short: "train a model on one or more processes of this machine, or as a rank of a world that another launcher started",
		Long: `Trains a model. Without --config it trains a small Llama on the source of Go's standard
library, in two processes, and shows what it learned.

Started with RANK and WORLD_SIZE in the environment it joins that world as one rank.
Ctrl-C ends the run after the step that is under way, with a checkpoint; --resume auto
goes on from it.`,
		Args: noArgs,
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c) }
	p := c.Flags()
	p.StringVar(&f.config, "config", "", "configuration `FILE` (YAML)")
	p.StringVar(&f.mode, "mode", "", "ddp or fsdp: the strategy where the file names none")
	p.IntVar(&f.nproc, "nproc", 0, "worker processes on this machine (default 1; 2 without --config)")
	p.StringArrayVar(&f.sets, "set", nil, "`path.to.key=value`: one value of the configuration, over the file's; repeatable")
	p.StringVar(&f.modelName, "model_name", "", "Hugging Face `DIR` to train (model.path)")
	p.StringVar(&f.outputDir, "output_dir", "", "`DIR` for everything that the run writes")
	p.Uint64Var(&f.seed, "seed", 0, "of weights and of the order of data (training.seed)")
	p.StringVar(&f.resume, "resume", "", "auto, none, or a checkpoint's `DIR`")
	p.BoolVar(&f.dryRun, "dry-run", false, "check everything, say what it would need, and stop")
	return c
}

func (f *trainFlags) run(c *cobra.Command) error {
	if f.mode != "" {
		if err := oneOf("mode", f.mode, "ddp", "fsdp"); err != nil {
			return err
		}
	}
	if c.Flags().Changed("nproc") && f.nproc < 1 {
		return usage(fmt.Sprintf("--nproc is %d: it must be at least 1", f.nproc), "")
	}
	env, err := rendezvous.Read(os.LookupEnv)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	job, err := f.job(c, env)
	if err != nil {
		return err
	}
	if env.Launched {
		return job.work(c.Context(), env, c.OutOrStdout(), c.ErrOrStderr())
	}
	return f.lead(c, job)
}

// job is a run's configuration and what belongs to it.
type job struct {
	cfg      train.Config
	origins  conf.Origins
	resolved string        // the configuration as text
	model    *model.Config // nil: the configuration points to it
	recipe   *recipes.Recipe
}

// job loads the configuration: the file or the recipe, --set, the environment, flags, each
// over the one before.
func (f *trainFlags) job(c *cobra.Command, env rendezvous.Env) (*job, error) {
	j := &job{}
	defaults := train.Default()
	switch f.mode {
	case "ddp":
		defaults.Parallel.Strategy = "no_shard"
	case "fsdp":
		defaults.Parallel.Strategy = "full_shard"
	}
	var sources []conf.Source
	if f.config != "" {
		sources = append(sources, conf.File(f.config))
	} else if f.modelName == "" && !sets(f.sets, "model.") && !sets(f.sets, "data.path") {
		j.recipe = recipes.GoSource()
		sources = append(sources, conf.Text(j.recipe.Name, j.recipe.YAML))
	}
	for _, s := range f.sets {
		sources = append(sources, conf.Set(s))
	}
	sources = append(sources, conf.Env(environment()))
	for _, s := range []struct{ flag, path, value string }{
		{"model_name", "model.path", f.modelName}, {"output_dir", "output_dir", f.outputDir},
		{"seed", "training.seed", strconv.FormatUint(f.seed, 10)}, {"resume", "resume", f.resume},
	} {
		if c.Flags().Changed(s.flag) {
			sources = append(sources, conf.Flag("--"+s.flag, s.path, s.value))
		}
	}
	loaded, err := conf.Load(defaults, sources...)
	if err != nil {
		return nil, err
	}
	j.cfg, j.origins = loaded.Value, loaded.Origins
	if j.recipe != nil {
		if j.model, err = families.ParseConfig(j.recipe.Name, []byte(j.recipe.Model)); err != nil {
			return nil, err
		}
	}
	var text strings.Builder
	if err := conf.Print(&text, j.cfg, nil); err != nil {
		return nil, err
	}
	j.resolved = text.String()
	return j, nil
}

// sets says whether an assignment is of a key that begins so.
func sets(assignments []string, prefix string) bool {
	for _, s := range assignments {
		if strings.HasPrefix(strings.TrimSpace(s), prefix) {
			return true
		}
	}
	return false
}

// notKeys are variables of ours that name no key of the configuration.
var notKeys = map[string]bool{
	"TRIREME_PARENT_FD": true, "TRIREME_JOB_SECRET": true, "TRIREME_JOB_SECRET_FD": true, "TRIREME_JOB_SECRET_FILE": true, recordsVar: true, beganVar: true,
}

// environment is the variables that may name keys.
func environment() map[string]string {
	out := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, conf.EnvPrefix) && !notKeys[k] {
			out[k] = v
		}
	}
	return out
}

// lead is what the process does that a user starts: it prepares, starts workers or is the
// only one, and says at the end what came of it.
func (f *trainFlags) lead(c *cobra.Command, j *job) error {
	ctx, stderr := c.Context(), c.ErrOrStderr()
	nproc := f.nproc
	if nproc == 0 {
		nproc = 1
		if j.recipe != nil {
			nproc = j.recipe.Nproc
		}
	}
	if j.recipe != nil {
		if err := j.recipe.Prepare(ctx, stderr); err != nil {
			return err
		}
	}
	if err := j.check(nproc); err != nil {
		return err
	}
	if f.dryRun {
		return j.printPlan(ctx, c.OutOrStdout(), nproc)
	}
	if err := os.MkdirAll(j.cfg.OutputDir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(j.cfg.OutputDir, "config.yaml"), []byte(j.resolved), 0o644); err != nil {
		return err
	}
	screen, err := openScreen(j.cfg.Logging, stderr)
	if err != nil {
		return err
	}
	if nproc == 1 {
		err = j.workOn(ctx, rendezvous.Single(), screen)
	} else {
		err = j.start(ctx, nproc, c.OutOrStdout(), screen)
	}
	if closed := screen.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return j.tell(ctx, c.OutOrStdout(), nproc)
}

// check finds what can be found before anything is started.
func (j *job) check(nproc int) error {
	if _, err := j.cfg.Training.Accumulation(nproc); err != nil {
		return &Exit{CodeUsage, err}
	}
	if _, _, _, err := j.cfg.Parallel.Resolve(nproc); err != nil {
		return &Exit{CodeUsage, err}
	}
	if j.model == nil {
		m, err := families.ReadConfig(j.cfg.Model.ConfigPath())
		if err != nil {
			return &Exit{CodeUsage, err}
		}
		j.model = m
	}
	return nil
}

// start runs this command line again as worker processes.
func (j *job) start(ctx context.Context, nproc int, stdout io.Writer, s *screen) error {
	files, err := s.files(int64(j.cfg.Training.MaxSteps))
	if err != nil {
		return err
	}
	return startWorkers(ctx, launch.Config{
		Nproc: nproc, LogDir: filepath.Join(j.cfg.OutputDir, "logs"), Stdout: stdout, Stderr: s, Files: files,
	})
}
