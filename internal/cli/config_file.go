package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trireme/fault"
	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/model"
	"trireme/parallel"
	"trireme/rendezvous"
)

// readFile reads --config, whoever's file it is, into j. What is wrong with the file is told with the
// rest of the configuration.
func (f *trainFlags) readFile(c *cobra.Command, env rendezvous.Env, j *job) (conf.Source, error) {
	if f.format != "" {
		if err := oneOf("config_format", f.format, foreign.Formats()...); err != nil {
			return conf.Source{}, err
		}
	}
	if f.config == "-" {
		f.config = stdinName
	}
	var text string
	err := untilStopped(c.Context(), "waiting for "+f.config, "nothing was begun", func(ctx context.Context) (err error) {
		text, j.piped, err = readConfig(ctx, f.config, c.ErrOrStderr())
		return err
	})
	if err == nil && conf.Blank(text) {
		err = conf.Errors{{Where: f.config, Text: "is empty: it has no key. try: trireme config keys, for those that there are, or leave --config out"}}
	}
	if err == nil {
		j.file, err = foreign.Read(f.config, text, f.foreignOptions(env))
	}
	var problems conf.Errors
	switch {
	case errors.As(err, &problems):
		j.file = nil
		return conf.Unread(problems), nil
	case err != nil:
		return conf.Source{}, err
	}
	return j.file.Source, nil
}

// foreign is what is known beside a file.
func (f *trainFlags) foreignOptions(env rendezvous.Env) foreign.Options {
	environ := environment()
	o := foreign.Options{
		Mode: f.mode, Format: foreign.Format(f.format), Ranks: int(f.nproc), Launched: env.Launched, PlanOnly: f.noData, DeviceMemory: f.deviceMemory,
		Model:     f.modelName != "" || sets(f.sets, "model.path") || sets(f.sets, "model.config") || environ["TRIREME_MODEL_PATH"] != "",
		Data:      f.data != "" || sets(f.sets, "data.path") || environ["TRIREME_DATA_PATH"] != "",
		OutputDir: f.outputDir != "" || sets(f.sets, "output_dir") || environ["TRIREME_OUTPUT_DIR"] != "",
	}
	if env.Launched {
		o.Ranks = env.WorldSize
	}
	return o
}

// settleDefaults drops defaults of the file's program that this model and data cannot have: a task whose
// head the model's family lacks, and the best model of evaluations where there is no evaluation set.
func (j *job) dropFileDefaults() {
	j.dropTask()
	const best = "training.load_best_model_at_end"
	if !j.cfg.Training.LoadBestModelAtEnd || !j.isFileDefault(best) {
		return
	}
	if has, err := j.cfg.Data.HasEval(); err == nil && !has {
		j.dropDefault(best, "true", "has no effect: there is no evaluation set. Set data.eval_fraction or data.eval_path")
		j.cfg.Training.LoadBestModelAtEnd = false
	}
}

// trainers says whether a value is a default of the program that a file is of.
func (j *job) isFileDefault(key string) bool {
	return j.file != nil && j.file.ByDefault(key, j.origins[key])
}

// drop notes a default that is not taken over.
func (j *job) dropDefault(key, value, what string) {
	j.file.Notes = append(j.file.Notes, foreign.Note{Where: j.origins[key], Key: key, Value: value, Effect: what})
	j.origins[key] = "default"
}

func (j *job) dropTask() {
	if j.cfg.Model.Task == "" || !j.isFileDefault("model.task") {
		return
	}
	if _, err := j.cfg.Model.Read(families); errors.Is(err, model.ErrTask) {
		j.dropDefault("model.task", j.cfg.Model.Task, "has no effect: the model has no such head, and is trained as its config.json says")
		j.cfg.Model.Task = ""
	}
}

// checkFile refuses what a file asks of this model and this number of ranks, of which each machine has
// local, and they do not have, with the place that asks.
func (j *job) checkFile(ranks, local int) error {
	if err := j.checkMesh(ranks, local); err != nil {
		return err
	}
	if j.file == nil || len(j.file.LayerClasses) == 0 {
		return nil
	}
	config, err := j.readModel()
	if err != nil {
		return nil // which is found, and told, when the model is needed
	}
	return j.file.CheckLayers(config.Modules())
}

// checkMode refuses --mode ddp beside a strategy that divides something.
func (j *job) checkMode(mode string) error {
	s, err := parallel.ParseStrategy(j.cfg.Parallel.Strategy)
	if mode != "ddp" || err != nil || !s.Params && !s.Grads && !s.Optimizer {
		return nil
	}
	return usage(fmt.Sprintf("%s: parallel.strategy is %s, and --mode ddp is no_shard", j.origins["parallel.strategy"], s.Name), "one of them")
}

// checkMesh says of a division of the ranks that cannot be which setting decided it.
func (j *job) checkMesh(ranks, local int) error {
	_, _, err := j.cfg.Parallel.Resolve(ranks, local)
	if err == nil {
		return nil
	}
	var at *fault.Error
	if errors.As(err, &at) {
		for _, key := range []string{at.Key(), at.Key() + ".shard", at.Key() + ".replicate"} {
			if where := j.origins[key]; where != "" && where != "default" {
				return &Exit{CodeUsage, fmt.Errorf("%s: %w", where, err)}
			}
		}
	}
	return &Exit{CodeUsage, err}
}

// warn says which settings have no effect, or another one than they say.
func (j *job) warn(w io.Writer) error {
	if len(j.former) > 0 {
		var names []string
		for _, p := range j.former {
			if !slices.Contains(names, p.Path) {
				names = append(names, p.Path)
			}
		}
		if _, err := fmt.Fprintf(w, "%s: keys of an earlier version have no effect: %s\n", j.former[0].Where, strings.Join(names, ", ")); err != nil {
			return err
		}
	}
	if j.file == nil {
		return nil
	}
	_, err := fmt.Fprint(w, j.file.Warning())
	return err
}
