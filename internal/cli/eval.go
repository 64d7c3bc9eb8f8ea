package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"trireme/internal/conf"
	"trireme/internal/rundir"
	"trireme/launch"
	"trireme/monitor"
	"trireme/rendezvous"
	"trireme/train"
)

type evalFlags struct {
	trainFlags
	checkpoint string // its weights are evaluated; empty: the model's files
}

func newEval() *cobra.Command {
	f := &evalFlags{}
	c := &cobra.Command{
		Use:   "eval",
		Short: "evaluate a model: loss, perplexity, accuracy",
		Long: `Compute a model's mean loss and perplexity, or for a classifier accuracy and macro F1. Every row
counts once, and results are bitwise equal for any number of processes.

The data is --data, or else the evaluation set of the configuration (data.eval_path,
data.eval_fraction), or else data.path. A run's directory and a checkpoint provide the
configuration.`,
		Example: `  trireme eval --model out/final_model --config out/config.yaml
  trireme eval --model DIR --data test.jsonl --set data.sequence_length=128 --nproc 2`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE` (YAML) of the run")
	p.StringVar(&f.modelName, "model", "", "model: a Hugging Face `DIR`, a name on the hub, a run's directory, or a checkpoint [model.path]")
	p.StringVar(&f.data, "data", "", "evaluation data: the `PATH` of a file or directory, or a glob [data.path]")
	p.Var(&f.nproc, "nproc", "`N` ranks on this machine, or auto: one per GPU with --device cuda, else per NUMA node (default 1)")
	f.secret.add(p)
	f.hosts.addHostFlags(p)
	f.addDeviceFlags(p)
	p.StringArrayVar(&f.sets, "set", nil, "set a key of the configuration, `KEY=VALUE`: data.sequence_length=128 (repeatable)")
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *evalFlags) run(c *cobra.Command) error {
	if f.config == "" && f.modelName == "" && !sets(f.sets, "model.") {
		return usage("--model is missing", c.CommandPath()+" --model DIR --data FILE")
	}
	if err := f.resolveNproc(); err != nil {
		return err
	}
	env, err := f.secret.env()
	if err != nil {
		return err
	}
	if f.hosts.launches(c, env) {
		return f.hosts.runCommand(c, f.nproc, f.secret, "")
	}
	notes := c.ErrOrStderr()
	if env.Rank > 0 || isOwnWorker() {
		notes = io.Discard // the process that the user started says it
	}
	if err := f.findModel(c, notes); err != nil {
		return err
	}
	var more []conf.Source
	if f.modelName != "" {
		more = append(more, conf.Flag("--model", "model.random_weights", "false"))
	}
	if f.data != "" {
		more = append(more, conf.Flag("--data", "data.eval_path", ""), conf.Flag("--data", "data.eval_fraction", "0"))
	}
	j, err := f.job(c, env, more...)
	if err != nil {
		return err
	}
	if env, err = f.ranksOf(c, env, j); err != nil {
		return err
	}
	if err := j.setProcesses(env, max(1, int(f.nproc))); err != nil {
		return err
	}
	if f.data == "" && j.cfg.Data.EvalPath == "" && j.cfg.Data.EvalFraction == 0 {
		fmt.Fprintf(notes, "no evaluation set: measuring data.path, %s\n", j.cfg.Data.Path)
	}
	ctx, stdout := c.Context(), c.OutOrStdout()
	if err := j.locate(ctx, env, c.ErrOrStderr()); err != nil {
		return err
	}
	if env.Launched || f.nproc <= 1 {
		return f.measure(ctx, env, j, stdout, c.ErrOrStderr())
	}
	workers, err := j.workerEnv()
	if err != nil {
		return err
	}
	w := launch.Config{Nproc: int(f.nproc) / j.perProc, Ranks: j.perProc, Env: workers, Stdout: stdout, Stderr: c.ErrOrStderr()}
	if err := bindWorkers(&w, j.numa(), numaKey, nil, c.ErrOrStderr()); err != nil {
		return err
	}
	return startWorkers(ctx, w)
}

// findModel sets the model and the configuration of the run or checkpoint in --model.
func (f *evalFlags) findModel(c *cobra.Command, stderr io.Writer) error {
	s, err := findModel(f.modelName, stderr)
	if err != nil {
		return err
	}
	switch {
	case s.checkpoint != "":
		f.checkpoint, f.modelName = s.checkpoint, ""
		c.Flags().Lookup("model").Changed = false // the checkpoint's configuration names the model
		if f.config == "" {
			f.runConfig = runSources(conf.Text(s.checkpoint, s.config))
		}
	default:
		f.modelName = s.dir
		if config := filepath.Join(s.run, rundir.Config); s.run != "" && f.config == "" && exists(config) {
			f.runConfig = runSources(conf.File(config))
		}
	}
	return nil
}

// runSources returns a run's configuration for evaluation, without its mesh.
func runSources(config conf.Source) []conf.Source {
	return []conf.Source{config, conf.Text("--model", "parallel: {mesh: {replicate: 0, shard: 0}, reshard_after_forward: true}")}
}

type evalReport struct {
	Schema     string              `json:"schema"`
	Model      string              `json:"model"`
	Loss       *float64            `json:"eval_loss"`
	Perplexity *float64            `json:"perplexity,omitempty"`
	Accuracy   *float64            `json:"accuracy,omitempty"`
	MacroF1    *float64            `json:"macro_f1,omitempty"`
	Means      map[string]*float64 `json:"means,omitempty"`
	Tokens     int64               `json:"eval_tokens"` // tokens, or rows of a classifier
	Seconds    float64             `json:"eval_seconds"`
	World      int                 `json:"world_size"`
}

// measure evaluates as the ranks of this process; rank 0 prints the result.
func (f *evalFlags) measure(ctx context.Context, env rendezvous.Env, j *job, out, stderr io.Writer) error {
	j.connect(ctx, env, stderr)
	return j.withWorlds(func(j *job, w *world) error {
		deps, t := j.trainDeps(w), newTokenizing(stderr, j.dataName())
		if w.env.Rank == 0 {
			deps.Tokenizing = t.report
		}
		deps.Checkpoint = f.checkpoint
		e, err := train.Evaluate(w.conn.ctx, j.cfg, deps)
		t.close()
		if err != nil || w.env.Rank != 0 {
			return err
		}
		if !f.json {
			return monitor.NewLine(out).Evaluate(e)
		}
		name := f.checkpoint
		if name == "" {
			name = j.named("model.path")
		}
		r := evalReport{
			Schema: "trireme.eval/1", Model: filepath.Clean(name), Loss: finite(e.Loss), Accuracy: finiteOrNil(e.Accuracy), MacroF1: finiteOrNil(e.MacroF1),
			Means: map[string]*float64{}, Tokens: e.Tokens, Seconds: e.Seconds, World: e.WorldSize,
		}
		for name, v := range e.Means {
			r.Means[name] = finite(v)
		}
		if e.Accuracy == nil {
			r.Perplexity = finite(e.Perplexity())
		}
		return writeJSON(out, r)
	})
}
