package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/device"
	"trireme/internal/cluster"
	"trireme/internal/conf"
	"trireme/launch"
	"trireme/rendezvous"
)

// hostFlags are the flags of launch that other commands have, to run on several hosts themselves.
var hostFlags = []string{"nnodes", "node_rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend", "rdzv_id", "rdzv_conf", "local_addr", "max_restarts", "preflight"}

// addHostFlags adds flags of f, which has no others, to a command.
func (f *launchFlags) addHostFlags(p *pflag.FlagSet) {
	own := pflag.NewFlagSet("launch", pflag.ContinueOnError)
	f.register(own)
	for _, name := range hostFlags {
		p.AddFlag(own.Lookup(name))
	}
}

// changed returns the flags of several hosts on the command line.
func (f *launchFlags) changed() (names []string) {
	for _, name := range hostFlags {
		if f.flags.Lookup(name).Changed {
			names = append(names, name)
		}
	}
	return names
}

// launches reports whether this command starts its ranks as trireme launch does, because of flags of several hosts.
// Another launcher has started the ranks of a job itself.
func (f *launchFlags) launches(c *cobra.Command, env rendezvous.Env) bool {
	names := f.changed()
	if len(names) > 0 && env.Launched {
		if env.Rank == 0 {
			fmt.Fprintf(c.ErrOrStderr(), "note: --%s: no effect: another launcher started the ranks (RANK, WORLD_SIZE)\n", strings.Join(names, ", --"))
		}
		return false
	}
	return len(names) > 0
}

// runCommand runs this command line as nproc workers on each of several hosts. The workers' output is appended to
// logDir, if that is not empty.
func (f *launchFlags) runCommand(c *cobra.Command, nproc ranksFlag, secret secretFlags, logDir string) error {
	s, err := f.commandSettings(c, nproc, secret)
	if err != nil {
		return err
	}
	for _, n := range s.notes {
		fmt.Fprintf(c.ErrOrStderr(), "note: %s\n", n)
	}
	signals := make(chan os.Signal, 32)
	defer stopOf(c.Context()).Forward(signals)()
	w := &s.cluster.Workers
	w.Signals, w.Stdout, w.Stderr, w.Output, w.LogDir = signals, c.OutOrStdout(), c.ErrOrStderr(), launch.Output{}, logDir
	s.acrossHosts(c.ErrOrStderr())
	if err := s.bind(c.ErrOrStderr()); err != nil {
		return err
	}
	code, err := cluster.Run(context.WithoutCancel(c.Context()), s.cluster)
	if err != nil || code != 0 {
		return &Exit{code, err}
	}
	return nil
}

func (f *launchFlags) commandSettings(c *cobra.Command, nproc ranksFlag, secret secretFlags) (*launchSettings, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program to start workers: %w", err)
	}
	f.secret = secret
	if err := f.flags.Set("nproc_per_node", strconv.Itoa(max(1, int(nproc)))); err != nil {
		return nil, err
	}
	command := strings.Fields(c.CommandPath())[1:]
	return f.settings(c, slices.Concat([]string{exe}, command, argumentsWithout(c.Flags(), append([]string{"nproc", "secret_file", "insecure"}, hostFlags...))))
}

// argumentsWithout returns the flags of a command line without some.
func argumentsWithout(p *pflag.FlagSet, without []string) (args []string) {
	p.Visit(func(flag *pflag.Flag) {
		if slices.Contains(without, flag.Name) {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			args = append(args, "--"+flag.Name+"="+v)
		}
	})
	return args
}

// world returns the variables of rank 0 in the job, to check it before it starts.
func (f *launchFlags) world(c *cobra.Command, nproc ranksFlag, secret secretFlags) (rendezvous.Env, error) {
	s, err := f.commandSettings(c, nproc, secret)
	if err != nil {
		return rendezvous.Env{}, err
	}
	n := s.cluster.Workers.Nproc
	e := rendezvous.Single()
	e.Launched, e.WorldSize, e.LocalWorldSize, e.GroupWorldSize = true, n*s.cluster.MaxHosts, n, s.cluster.MaxHosts
	return e, nil
}

// logDir returns the directory of logs in --output_dir; "" without one, whose name rank 0 chooses later.
func (f *trainFlags) logDir() string {
	if f.outputDir == "" {
		return ""
	}
	return filepath.Join(f.outputDir, "logs")
}

// resolveNproc replaces --nproc auto by one rank per visible GPU with device cuda, else one per NUMA node.
func (f *trainFlags) resolveNproc() error {
	if f.nproc != autoNproc {
		return nil
	}
	f.nproc = ranksFlag(autoRanks())
	if f.deviceName() != string(device.CUDA) {
		return nil
	}
	n, err := device.VisibleGPUs(os.LookupEnv)
	if err != nil {
		return fmt.Errorf("--nproc auto: %w", err)
	}
	f.nproc = ranksFlag(max(1, n)) // without a GPU the device has the error
	return nil
}

// deviceName returns device.name before the configuration is read.
func (f *trainFlags) deviceName() string {
	if f.device != "" {
		return f.device
	}
	return f.deviceKey("name")
}

// deviceKey returns a key of device in --set, the environment or the file, before the configuration is read.
func (f *trainFlags) deviceKey(name string) (value string) {
	if text, err := os.ReadFile(f.config); err == nil {
		if doc, err := conf.Parse(f.config, string(text)); err == nil {
			v, _ := doc.Find("device", name)
			value = v.Text
		}
	}
	if v := environment()["TRIREME_DEVICE_"+strings.ToUpper(name)]; v != "" {
		value = v
	}
	for _, s := range f.sets {
		if key, v, _ := strings.Cut(s, "="); strings.TrimSpace(key) == "device."+name {
			value = strings.TrimSpace(v)
		}
	}
	return value
}
