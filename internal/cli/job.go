package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/internal/netif"
	"trireme/internal/rundir"
	"trireme/model"
	"trireme/recipes"
	"trireme/rendezvous"
	"trireme/train"
)

// job is a run's configuration and state.
type job struct {
	cfg      train.Config
	origins  conf.Origins
	former   []conf.Problem // obsolete keys in its sources
	resolved string         // the configuration as text
	piped    string         // the part read from a pipe, for workers
	model    *model.Config  // nil: read it from the configuration
	recipe   *recipes.Recipe
	file     *foreign.File  // of the configuration; nil: none
	summary  *train.Summary // set by inspect
	located  []resolved     // names on the hub
	run      runID          // empty until known
	restart  restart
	locks    map[string]*rundir.Lock // of its directories, by the variable that passes them to rank 0; nil in workers and before locking
	process  *process                // the ranks of this process; nil before they connect
	perProc  int                     // ranks per process
	planned  map[string]int64        // peak bytes of a rank by category, and total; nil until checkMemory
	stepping bool                    // training steps have started, here or in workers
	trace    traceFlag
}

// job loads the configuration: the file or recipe, the environment, --set, flags, then more. Later
// sources override earlier ones.
func (f *trainFlags) job(c *cobra.Command, env rendezvous.Env, more ...conf.Source) (*job, error) {
	if err := f.resolveNproc(); err != nil {
		return nil, err
	}
	switch {
	case f.useFSDP && f.mode != "" && f.mode != "fsdp":
		return nil, usage("--use_fsdp contradicts --mode "+f.mode, "--mode fsdp, or --mode "+f.mode)
	case f.format != "" && f.config == "":
		return nil, usage("--config_format needs a file", "--config FILE --config_format "+f.format)
	case f.useFSDP:
		f.mode = "fsdp"
	}
	if f.mode != "" {
		if err := oneOf("mode", f.mode, "ddp", "fsdp", "deepspeed"); err != nil {
			return nil, err
		}
	}
	j := &job{trace: f.trace}
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

// sets reports whether an assignment is for a key with the prefix.
func sets(assignments []string, prefix string) bool {
	for _, s := range assignments {
		if strings.HasPrefix(strings.TrimSpace(s), prefix) {
			return true
		}
	}
	return false
}

// internalVars are TRIREME_ variables that name no key.
var internalVars = map[string]bool{
	"TRIREME_PARENT_FD": true, "TRIREME_WORDS_FD": true, "TRIREME_CRASH_FD": true, "TRIREME_MEMORY_FD": true, rendezvous.SecretVar: true, rendezvous.SecretFDVar: true, rendezvous.SecretFileVar: true, rendezvous.InsecureVar: true, rendezvous.ProcessRanksVar: true, rendezvous.LoopbackVar: true, rendezvous.FirstWorldVar: true, recordsVar: true, detachVar: true, netif.LocalAddrVar: true, startTimeVar: true,
	resolvedVar: true, runVar: true, lockVar: true, checkpointLockVar: true, tierLockVar: true, pipedVar: true, workerVar: true, trialVar: true,
}

// environment returns the variables that may name keys.
func environment() map[string]string {
	out := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, conf.EnvPrefix) && !internalVars[k] {
			out[k] = v
		}
	}
	return out
}
