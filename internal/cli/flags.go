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

// flagAliases are further names of a flag, on each command that has no other flag of that name.
var flagAliases = map[string][]string{
	"model":          {"model_name", "model_name_or_path"},
	"data":           {"data_path"},
	"max_steps":      {"steps"},
	"epochs":         {"num_epochs", "num_train_epochs"},
	"learning_rate":  {"lr"},
	"output_dir":     {"output"},
	"nproc":          {"nproc_per_node", "num_processes", "ranks"},
	"world_size":     {"nproc", "ranks"},
	"nnodes":         {"num_nodes", "num_machines"},
	"node_rank":      {"machine_rank"},
	"master_addr":    {"main_process_ip"},
	"master_port":    {"main_process_port"},
	"ranks_per_node": {"local_world_size", "nproc_per_node"},
}

// addAliases accepts flags with - or _ and by their aliases, in a command and its subcommands. Help
// shows them with _, like keys.
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

// bareResume replaces --resume without a value by --resume=auto. NoOptDefVal would rule out
// "--resume auto".
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

// ranksFlag is a number of ranks, or autoNproc.
type ranksFlag int

// autoNproc is --nproc auto, until resolveNproc.
const autoNproc ranksFlag = -1 << 31

func (n *ranksFlag) String() string {
	if *n == autoNproc {
		return "auto"
	}
	return strconv.Itoa(int(*n))
}
func (n *ranksFlag) Type() string { return "ranks" }

func (n *ranksFlag) Set(s string) error {
	if s == "auto" {
		*n = autoNproc
		return nil
	}
	v, err := strconv.Atoi(s)
	*n = ranksFlag(v)
	return err
}

// keyFlag is a flag for a key of the configuration. A flag without a value name is a switch.
type keyFlag struct {
	flag, short, value, usage, path string
}

// keyFlags are the flags of train, in order of application.
var keyFlags = []keyFlag{
	{"model", "", "DIR", "Hugging Face model: a directory, or NAME[@REVISION] on the hub (also --model_name)", "model.path"},
	{"data", "", "PATH", "training data: a file, directory, glob or name on the hub", "data.path"},
	{"epochs", "", "N", "passes over the data, instead of max_steps", "training.num_train_epochs"},
	{"max_steps", "", "N", "optimizer steps (also --steps)", "training.max_steps"},
	{"learning_rate", "", "RATE", "peak learning rate (also --lr)", "training.learning_rate"},
	{"device", "", "NAME", "device: cpu, cuda, xla or tpu (trireme doctor devices lists what is here)", "device.name"},
	{"plugin", "", "FILE", "PJRT plug-in of the device (default for cuda and tpu: where pip installs it)", "device.plugin"},
	{"seed", "", "N", "seed of the initial weights and the data order", "training.seed"},
	{"output_dir", "o", "DIR", "directory of the run's output (also --output; default: a new runs/NAME-N)", "output_dir"},
	{"name", "", "NAME", "name of the run (default: the name of the configuration file or the model)", "name"},
	{"move_aside", "", "", "rename an output_dir that contains another run, and start a new one", "move_aside"},
	{"resume", "", "WHICH", "auto, none, or the directory of a checkpoint (default without a value: auto)", "resume"},
}

func (f *trainFlags) addConfigFlags(p *pflag.FlagSet) {
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE`: YAML, or an unchanged file of DeepSpeed, Accelerate, the DDP or FSDP trainer, or the Free Transformer")
	p.StringVar(&f.format, "config_format", "", "`FORMAT` of the file, if its keys are ambiguous: "+strings.Join(foreign.Formats(), ", "))
	p.StringVar(&f.mode, "mode", "", "`NAME` of the strategy if the file has none: ddp, fsdp or deepspeed; without --config, all defaults of that trainer")
	p.BoolVar(&f.useFSDP, "use_fsdp", false, "same as --mode fsdp")
	p.StringArrayVar(&f.sets, "set", nil, "set a key of the configuration, `KEY=VALUE`: training.max_steps=20 (repeatable)")
	for _, k := range keyFlags {
		p.VarP(&stringFlag{f.keyValue(k.path), k.value}, k.flag, k.short, fmt.Sprintf("%s [%s]", k.usage, k.path))
		if k.value == "" {
			p.Lookup(k.flag).NoOptDefVal = "true"
		}
	}
}

// stringFlag is a string with the value name kind in help.
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

// addDeviceFlags adds the flags of the device, as train has them.
func (f *trainFlags) addDeviceFlags(p *pflag.FlagSet) {
	for _, k := range keyFlags {
		if strings.HasPrefix(k.path, "device.") {
			p.Var(&stringFlag{f.keyValue(k.path), k.value}, k.flag, fmt.Sprintf("%s [%s]", k.usage, k.path))
		}
	}
}

// keyValue returns the variable of the flag for a key.
func (f *trainFlags) keyValue(path string) *string {
	return map[string]*string{
		"model.path": &f.modelName, "data.path": &f.data, "training.num_train_epochs": &f.epochs, "training.max_steps": &f.maxSteps,
		"training.learning_rate": &f.learningRate, "training.seed": &f.seed, "output_dir": &f.outputDir, "resume": &f.resume, "name": &f.name, "move_aside": &f.moveAside,
		"device.name": &f.device, "device.plugin": &f.plugin,
	}[path]
}

// flagSources returns the values of the keyFlags on the command line.
func (f *trainFlags) flagSources(c *cobra.Command) (out []conf.Source) {
	for _, k := range keyFlags {
		if !c.Flags().Changed(k.flag) {
			continue
		}
		name := "--" + k.flag
		switch k.path {
		case "model.path": // overrides model.config and model.inline of the file
			out = append(out, conf.Flag(name, "model.config", ""), conf.Flag(name, "model.inline", "null"))
		case "training.num_train_epochs":
			out = append(out, conf.Flag(name, "training.max_steps", "0"))
		}
		out = append(out, conf.Flag(name, k.path, *f.keyValue(k.path)))
	}
	return out
}
