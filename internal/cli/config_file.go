package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// readFile reads --config, in any format, into j. Load reports its errors with those of the other
// sources.
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
	err := untilStopped(c.Context(), "waiting for "+f.config, "nothing was started", func(ctx context.Context) (err error) {
		text, j.piped, err = readConfig(ctx, f.config, c.ErrOrStderr())
		return err
	})
	if err == nil && conf.Blank(text) {
		err = conf.Errors{{Where: f.config, Text: "is empty. try: trireme init FILE, or no --config"}}
	}
	if err == nil {
		j.file, err = foreign.Read(f.config, text, f.foreignOptions(env))
	}
	var problems conf.Errors
	switch {
	case errors.As(err, &problems):
		if near := nearbyPath(f.config); near != "" && errors.Is(err, fs.ErrNotExist) && problems[0].Where == f.config {
			problems[0].Text += fmt.Sprintf(" (did you mean %s?)", near)
		}
		j.file = nil
		return conf.Unread(problems), nil
	case err != nil:
		return conf.Source{}, err
	}
	return j.file.Source, nil
}

// foreignOptions returns what the command line and the environment set besides the file.
func (f *trainFlags) foreignOptions(env rendezvous.Env) foreign.Options {
	environ := environment()
	o := foreign.Options{
		Mode: f.mode, Format: foreign.Format(f.format), Ranks: int(f.nproc), Launched: env.Launched, PlanOnly: f.noData, DeviceMemory: f.deviceMemory,
		Model:     f.modelName != "" || sets(f.sets, "model.path") || sets(f.sets, "model.config") || environ["TRIREME_MODEL_PATH"] != "",
		Data:      f.data != "" || sets(f.sets, "data.path") || environ["TRIREME_DATA_PATH"] != "",
		OutputDir: f.outputDir != "" || sets(f.sets, "output_dir") || environ["TRIREME_OUTPUT_DIR"] != "",
	}
	if env.Launched {
		if env.FirstWorldSize > 0 { // the file's batch is for the first world
			env.WorldSize = env.FirstWorldSize
		}
		o.Ranks = f.foreignRanks(env)
	}
	return o
}

// dropFileDefaults drops defaults of the file's program that do not fit the model or the data: a
// task without a head in the model's family, and load_best_model_at_end without an evaluation set.
func (j *job) dropFileDefaults() {
	j.dropTask()
	const best = "training.load_best_model_at_end"
	if !j.cfg.Training.LoadBestModelAtEnd || !j.isFileDefault(best) {
		return
	}
	if has, err := j.cfg.Data.HasEval(); err == nil && !has {
		j.origins[best] = "default"
		j.cfg.Training.LoadBestModelAtEnd = false
	}
}

// isFileDefault reports whether a key has the default of the file's program.
func (j *job) isFileDefault(key string) bool {
	return j.file != nil && j.file.ByDefault(key, j.origins[key])
}

// dropDefault resets a default of the file's program and notes that.
func (j *job) dropDefault(key, value, what string) {
	j.file.Notes = append(j.file.Notes, foreign.Note{Where: j.origins[key], Key: key, Value: value, Effect: what})
	j.origins[key] = "default"
}

func (j *job) dropTask() {
	if j.cfg.Model.Task == "" || !j.isFileDefault("model.task") {
		return
	}
	if _, err := j.cfg.Model.Read(families); errors.Is(err, model.ErrTask) {
		j.dropDefault("model.task", j.cfg.Model.Task, "has no effect: the model has no such head; config.json decides the task")
		j.cfg.Model.Task = ""
	}
}

// checkFile refuses a mesh that does not fit the ranks (local per machine) and layer classes that
// the model lacks.
func (j *job) checkFile(ranks, local int) error {
	if err := j.checkMesh(ranks, local); err != nil {
		return err
	}
	if j.file == nil || len(j.file.LayerClasses) == 0 {
		return nil
	}
	config, err := j.readModel()
	if err != nil {
		return nil // reported when the model is needed
	}
	return j.file.CheckLayers(config.Modules())
}

// checkMode refuses --mode ddp with a strategy that shards.
func (j *job) checkMode(mode string) error {
	s, err := parallel.ParseStrategy(j.cfg.Parallel.Strategy)
	if mode != "ddp" || err != nil || !s.Params && !s.Grads && !s.Optimizer {
		return nil
	}
	return usage(fmt.Sprintf("%s: parallel.strategy is %s, but --mode ddp means no_shard", j.origins["parallel.strategy"], s.Name), "--mode fsdp, or no parallel.strategy")
}

// checkMesh refuses a mesh that does not fit the ranks, with the origin of the setting.
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

func (j *job) warn(w io.Writer) error {
	if len(j.former) > 0 {
		var names []string
		for _, p := range j.former {
			if !slices.Contains(names, p.Path) {
				names = append(names, p.Path)
			}
		}
		if _, err := fmt.Fprintf(w, "%s: obsolete keys have no effect: %s\n", j.former[0].Where, strings.Join(names, ", ")); err != nil {
			return err
		}
	}
	if j.file == nil {
		return nil
	}
	_, err := fmt.Fprint(w, j.file.Warning())
	return err
}
