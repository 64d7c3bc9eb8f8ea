package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/internal/conf"
	"trireme/internal/foreign"
)

// otherNames are names that a flag has besides its own, on each command that has the flag and none
// of that name.
var flagAliases = map[string][]string{
	"model":          {"model_name", "model_name_or_path"},
	"data":           {"data_path"},
	"max_steps":      {"steps"},
	"epochs":         {"num_epochs", "num_train_epochs"},
	"learning_rate":  {"lr"},
	"output_dir":     {"output"},
	"nproc":          {"nproc_per_node", "num_processes", "ranks"},
	"world_size":     {"nproc", "ranks"},
	"ranks_per_node": {"local_world_size", "nproc_per_node"},
}

// spellings lets the flags below a command be written with - or _, and by their other names. Help
// shows each with _, as the configuration's keys are.
func addAliases(c *cobra.Command) {
	also := map[string]string{}
	for name, others := range flagAliases {
		for _, o := range others {
			if c.Flags().Lookup(name) != nil && c.Flags().Lookup(o) == nil {
				also[o] = name
			}
		}
	}
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.ReplaceAll(name, "-", "_")
		if own, ok := also[name]; ok {
			name = own
		}
		return pflag.NormalizedName(name)
	})
	for _, sub := range c.Commands() {
		addAliases(sub)
	}
}

// bareResume gives --resume without a value the value auto. A flag whose value may be left out
// could not be written "--resume auto".
func bareResume(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if a == "--" {
			break
		}
		if a == "--resume" && (i+1 == len(out) || strings.HasPrefix(out[i+1], "-")) {
			out[i] = "--resume=auto"
		}
	}
	return out
}

// ranksFlag is a number of ranks on this machine, or auto.
type ranksFlag int

func (n *ranksFlag) String() string { return strconv.Itoa(int(*n)) }
func (n *ranksFlag) Type() string   { return "ranks" }

func (n *ranksFlag) Set(s string) error {
	if s == "auto" {
		*n = ranksFlag(autoRanks())
		return nil
	}
	v, err := strconv.Atoi(s)
	*n = ranksFlag(v)
	return err
}

// keyFlag is a flag for a key of the configuration. Its value is read as the key's; one whose value
// has no name may be given without any, and is then true.
type keyFlag struct {
	flag, short, value, usage, path string
}

// keyFlags are those of train, in the order in which they are applied.
var keyFlags = []keyFlag{
	{"model", "", "DIR", "Hugging Face model to train, or its name on the hub, NAME@REVISION (also --model_name)", "model.path"},
	{"data", "", "PATH", "file, directory, glob or name on the hub to train on", "data.path"},
	{"epochs", "", "N", "passes over the data, in place of max_steps", "training.num_train_epochs"},
	{"max_steps", "", "N", "optimizer steps (also --steps)", "training.max_steps"},
	{"learning_rate", "", "RATE", "peak learning rate (also --lr)", "training.learning_rate"},
	{"seed", "", "N", "seed of weights and of the order of data", "training.seed"},
	{"output_dir", "o", "DIR", "directory for everything that the run writes (also --output); a new runs/NAME-N without it", "output_dir"},
	{"name", "", "NAME", "name of the run (by default that of the configuration file, or else of the model)", "name"},
	{"move_aside", "", "", "rename an output_dir that holds another run, and begin anew", "move_aside"},
	{"resume", "", "WHICH", "auto, none, or a checkpoint's directory; without a value, auto", "resume"},
}

// treeFlags are those that decide the configuration.
func (f *trainFlags) addConfigFlags(p *pflag.FlagSet) {
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE`: YAML, or a file of the DDP or FSDP trainer, the Free Transformer, DeepSpeed or Accelerate as it is")
	p.StringVar(&f.format, "config_format", "", "`FORMAT` of the file, if its keys do not show it: "+strings.Join(foreign.Formats(), ", "))
	p.StringVar(&f.mode, "mode", "", "`NAME` of the strategy, if the file names none; without --config, all defaults of that trainer: ddp, fsdp or deepspeed")
	p.BoolVar(&f.useFSDP, "use_fsdp", false, "the same as --mode fsdp")
	p.StringArrayVar(&f.sets, "set", nil, "one value of the configuration, `KEY=VALUE`, as in training.max_steps=20; repeatable")
	for _, k := range keyFlags {
		p.VarP(&stringFlag{f.keyValue(k.path), k.value}, k.flag, k.short, fmt.Sprintf("%s [%s]", k.usage, k.path))
		if k.value == "" {
			p.Lookup(k.flag).NoOptDefVal = "true"
		}
	}
}

// text is the value of a flag, whose name in help is kind.
type stringFlag struct {
	to   *string
	kind string
}

func (t *stringFlag) String() string {
	if t.to == nil {
		return ""
	}
	return *t.to
}
func (t *stringFlag) Set(s string) error { *t.to = s; return nil }
func (t *stringFlag) Type() string {
	if t.kind == "" {
		return "bool"
	}
	return t.kind
}

// key is where the flag of a key puts its value.
func (f *trainFlags) keyValue(path string) *string {
	return map[string]*string{
		"model.path": &f.modelName, "data.path": &f.data, "training.num_train_epochs": &f.epochs, "training.max_steps": &f.maxSteps,
		"training.learning_rate": &f.learningRate, "training.seed": &f.seed, "output_dir": &f.outputDir, "resume": &f.resume, "name": &f.name, "move_aside": &f.moveAside,
	}[path]
}

// sources are the values of keyFlags that were given.
func (f *trainFlags) flagSources(c *cobra.Command) (out []conf.Source) {
	for _, k := range keyFlags {
		if !c.Flags().Changed(k.flag) {
			continue
		}
		name := "--" + k.flag
		switch k.path {
		case "model.path": // the model, whatever the file says
			out = append(out, conf.Flag(name, "model.config", ""), conf.Flag(name, "model.inline", "null"))
		case "training.num_train_epochs":
			out = append(out, conf.Flag(name, "training.max_steps", "0"))
		}
		out = append(out, conf.Flag(name, k.path, *f.keyValue(k.path)))
	}
	return out
}
