package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"trireme/internal/conf"
	"trireme/internal/foreign"
)

// accelerateFile is the YAML of --config_file. The zero value has no keys.
type accelerateFile struct {
	name, text string
	doc        conf.Value
}

// readAccelerate reads --config_file.
func (f *launchFlags) readAccelerate(c *cobra.Command) (file accelerateFile, err error) {
	flag := f.flags.Lookup("config_file")
	if !flag.Changed {
		return file, nil
	}
	file.name = flag.Value.String()
	if file.text, _, err = readConfig(c.Context(), file.name, c.ErrOrStderr()); err != nil {
		return file, &Exit{CodeUsage, err}
	}
	if file.doc, err = conf.Parse(file.name, file.text); err != nil {
		return file, &Exit{CodeUsage, err}
	}
	for _, name := range []string{"num_processes", "num_machines", "machine_rank", "main_process_port"} {
		if k, ok := file.doc.Find(name); ok && k.Kind == conf.Scalar {
			if _, err := k.Int(); err != nil {
				return file, usage(fmt.Sprintf("%s: %s: %v", k.Where, name, err), name+": 1")
			}
		}
	}
	return file, nil
}

// first returns a key of the file; nil if it has none.
func (file accelerateFile) first(name string) *given {
	k, ok := file.doc.Find(name)
	if !ok || k.Kind != conf.Scalar || k.Text == "" || name == "num_processes" && k.Text == "-1" {
		return nil
	}
	return &given{k.Text, k.Where + ": " + name}
}

// childSettings returns the variables of the workers that the launchers of accelerate and deepspeed set: keys of
// trireme train, GPUs and threads. Settings of a program that reads none of them are noted.
func (f *launchFlags) childSettings(s *launchSettings, file accelerateFile) (env []string, err error) {
	if n := f.flags.Lookup("num_cpu_threads_per_process"); n.Changed {
		if v, err := strconv.Atoi(n.Value.String()); err != nil || v < 1 || v > maxNproc {
			return nil, usage(fmt.Sprintf("--num_cpu_threads_per_process is %s, not 1 to %d", n.Value, maxNproc), "--num_cpu_threads_per_process 1")
		}
		env = append(env, "OMP_NUM_THREADS="+n.Value.String())
	}
	gpus := f.flags.Lookup("gpu_ids")
	if k := file.first("gpu_ids"); k != nil && !gpus.Changed {
		f.flags.Set("gpu_ids", k.value)
	}
	if v := gpus.Value.String(); v != "" && v != "all" {
		env = append(env, "CUDA_VISIBLE_DEVICES="+v)
	}
	keys, flags := f.accelerateKeys()
	if !s.program.trains() && file.name != "" {
		for _, name := range []string{"fsdp_config", "deepspeed_config", "mixed_precision", "megatron_lm_config", "parallelism_config", "dynamo_config"} {
			if k, ok := file.doc.Find(name); ok && !slices.Contains([]string{"", "no", "{}", "null"}, k.Text) || ok && k.Kind != conf.Scalar {
				flags = append(flags, k.Where+": "+name)
			}
		}
		if k, ok := file.doc.Find("zero_optimization"); ok {
			return nil, usage(k.Where+": zero_optimization: the file is for DeepSpeed, not for accelerate launch", "it as an argument of the program: train.py --deepspeed_config "+file.name)
		}
	}
	if len(flags) > 0 && !s.program.trains() {
		s.note("%s: no effect: the program is not trireme train, and gets no configuration", strings.Join(flags, ", "))
		return env, nil
	}
	if !s.program.trains() || len(flags) == 0 && file.name == "" {
		return env, nil
	}
	assigned, err := f.trainKeys(s, file, keys)
	return append(env, assigned...), err
}

// accelerateKeys returns the keys of an Accelerate file that flags set, and the flags.
func (f *launchFlags) accelerateKeys() (keys map[string]string, flags []string) {
	keys = map[string]string{}
	for _, o := range otherFlags {
		flag := f.flags.Lookup(o.name)
		if o.child == "" || !flag.Changed {
			continue
		}
		flags = append(flags, "--"+o.name)
		value := flag.Value.String()
		if o.bare {
			value = strings.ToUpper(strings.TrimPrefix(o.name, "use_"))
		}
		keys[o.child] = value
	}
	if flag := f.flags.Lookup("cpu"); flag.Changed {
		flags = append(flags, "--cpu")
		keys["use_cpu"] = flag.Value.String()
	}
	return keys, flags
}

// trainKeys translates Accelerate's settings, of the file and of flags, to variables of trireme train.
func (f *launchFlags) trainKeys(s *launchSettings, file accelerateFile, keys map[string]string) (env []string, err error) {
	doc := map[string]any{}
	if err := yaml.Unmarshal([]byte(file.text), &doc); err != nil {
		return nil, &Exit{CodeUsage, fmt.Errorf("%s: %w", file.name, err)}
	}
	if doc == nil { // an empty text
		doc = map[string]any{}
	}
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		group, name, nested := strings.Cut(path, ".")
		switch inner, ok := doc[group].(map[string]any); {
		case !nested:
			doc[path] = keys[path]
		case ok:
			inner[name] = keys[path]
		default:
			doc[group] = map[string]any{name: keys[path]}
		}
	}
	if _, ok := doc["distributed_type"]; !ok {
		doc["distributed_type"] = "NO"
		if s.cluster.Workers.Nproc*s.cluster.MaxHosts > 1 {
			doc["distributed_type"] = "MULTI_GPU"
		}
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return nil, err
	}
	name := file.name
	if name == "" {
		name = "flags"
	}
	read, err := foreign.Read(name, string(text), foreign.Options{Format: foreign.Accelerate, Launched: true, Ranks: s.cluster.Workers.Nproc * s.cluster.MaxHosts})
	var problems conf.Errors
	if errors.As(err, &problems) { // positions are those of the merged text
		p := problems[0]
		return nil, usage(fmt.Sprintf("%s: %s %s", name, p.Path, p.Text), "")
	}
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	for _, a := range read.Assignments {
		variable := conf.EnvPrefix + strings.ToUpper(strings.ReplaceAll(a.Path, ".", "_"))
		if _, ok := os.LookupEnv(variable); !ok {
			env = append(env, variable+"="+a.Value)
		}
	}
	return env, nil
}
