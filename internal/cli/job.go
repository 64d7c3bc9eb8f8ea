package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/internal/rundir"
	"trireme/model"
	"trireme/recipes"
	"trireme/rendezvous"
	"trireme/train"
)

// job is a run's configuration and what belongs to it.
type job struct {
	cfg      train.Config
	origins  conf.Origins
	former   []conf.Problem // keys of earlier versions that it was given
	resolved string         // the configuration as text
	piped    string         // what came of it through a pipe, for workers
	model    *model.Config  // nil: the configuration points to it
	recipe   *recipes.Recipe
	file     *foreign.File           // that the configuration came from; nil: from none
	summary  *train.Summary          // once it has been inspected
	located  []resolved              // names that are the hub's
	run      runID                   // which run it is, once that is known
	locks    map[string]*rundir.Lock // of its directories, by the variable that hands them to rank 0; nil: another process holds them, or none yet
	conn     *connection             // of a rank with the others
	stepping bool                    // steps are made, by this process or by its workers
}

// job loads the configuration: the file or the recipe, the environment, --set, flags and what
// more there is, each over the one before.
func (f *trainFlags) job(c *cobra.Command, env rendezvous.Env, more ...conf.Source) (*job, error) {
	switch {
	case f.useFSDP && f.mode != "" && f.mode != "fsdp":
		return nil, usage("--use_fsdp and --mode "+f.mode+" are given", "one of them")
	case f.format != "" && f.config == "":
		return nil, usage("--config_format is given without a file", "--config FILE")
	case f.useFSDP:
		f.mode = "fsdp"
	}
	if f.mode != "" {
		if err := oneOf("mode", f.mode, "ddp", "fsdp", "deepspeed"); err != nil {
			return nil, err
		}
	}
	j := &job{}
	defaults := train.Default()
	switch f.mode {
	case "ddp":
		defaults.Parallel.Strategy = "no_shard"
	case "fsdp", "deepspeed":
		defaults.Parallel.Strategy = "full_shard"
	}
	sources := []conf.Source{conf.Hints(suggestKey)}
	var err error
	if f.config != "" {
		var source conf.Source
		if source, err = f.readFile(c, env, j); err != nil {
			return nil, err
		}
		sources = append(sources, source)
	} else if f.mode != "" {
		j.file = foreign.Trainer(f.mode, f.foreignOptions(env))
		sources = append(sources, j.file.Source)
	} else if f.runConfig != nil {
		sources = append(sources, f.runConfig...)
	} else if f.modelName == "" && f.data == "" && !sets(f.sets, "model.") && !sets(f.sets, "data.path") {
		j.recipe = recipes.GoSource()
		sources = append(sources, conf.Text(j.recipe.Name, j.recipe.YAML))
	}
	sources = append(sources, conf.Env(environment()))
	for _, s := range f.sets {
		sources = append(sources, conf.Set("--set", s))
	}
	sources = append(sources, f.flagSources(c)...)
	if f.noData {
		defaults.Data.Path = "none"
	}
	loaded, err := conf.Load(defaults, append(sources, more...)...)
	if err != nil {
		return nil, err
	}
	j.cfg, j.origins, j.former = loaded.Value, loaded.Origins, loaded.Former
	if f.noData && j.origins["data.path"] == "default" {
		j.cfg.Data.Path = ""
	}
	if j.file != nil {
		if err := j.file.Compare(j.cfg, j.origins); err != nil {
			return nil, err
		}
	}
	if err := j.checkMode(f.mode); err != nil && !f.noData {
		return nil, err
	}
	if j.recipe == nil {
		j.recipe = recipeOf(j.cfg)
	}
	if j.recipe != nil {
		if j.model, err = families.ParseConfig(j.recipe.Name, []byte(j.recipe.Model)); err != nil {
			return nil, err
		}
	}
	if j.cfg.Name == "" {
		j.cfg.Name, j.origins["name"] = f.defaultName(j), "default"
	}
	return j, j.print()
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
var internalVars = map[string]bool{
	"TRIREME_PARENT_FD": true, "TRIREME_WORDS_FD": true, "TRIREME_CRASH_FD": true, rendezvous.SecretVar: true, rendezvous.SecretFDVar: true, rendezvous.SecretFileVar: true, recordsVar: true, startTimeVar: true,
	resolvedVar: true, runVar: true, lockVar: true, checkpointLockVar: true, pipedVar: true,
}

// environment is the variables that may name keys.
func environment() map[string]string {
	out := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, conf.EnvPrefix) && !internalVars[k] {
			out[k] = v
		}
	}
	return out
}
