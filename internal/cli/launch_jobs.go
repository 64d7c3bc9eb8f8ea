package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/internal/netif"
)

// masterAddress returns the address of the first host that the others reach: --master_addr, or, if the first host
// is this machine, the address of the interface that leads to the second, else the host name of ssh's
// configuration.
func (s *launchSettings) masterAddress(local int) (string, error) {
	switch {
	case s.cluster.MasterAddr != "" || len(s.cluster.Endpoints) > 0:
		return s.cluster.MasterAddr, nil
	case local != 0:
		return s.hostName(s.hosts[0].Name)
	case len(s.hosts) == 1:
		return "127.0.0.1", nil
	}
	second, err := s.hostName(s.hosts[1].Name)
	if err != nil {
		return "", err
	}
	address, err := netif.Towards(net22(second))
	if err != nil {
		return "", usage(err.Error(), "--master_addr ADDRESS of this machine")
	}
	return address, nil
}

// hostName returns the name or address that ssh connects to for a host.
func (s *launchSettings) hostName(host string) (string, error) {
	out, err := exec.Command("ssh", append(s.sshOptions(), "-G", "--", host)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", usage(fmt.Sprintf("ssh -G %s: %s", host, strings.TrimSpace(string(exit.Stderr))), "--launcher_args with valid arguments of ssh")
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "hostname "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return host, nil
}

func net22(host string) string { return strings.Trim(host, "[]") + ":22" }

// sshOptions are the user's options. ssh takes the first value of an option.
func (s *launchSettings) sshOptions() []string {
	args := strings.Fields(s.flags.launcherArgs)
	if s.flags.sshPort != 0 {
		args = append(args, "-p", strconv.Itoa(s.flags.sshPort))
	}
	return args
}

// remoteJobs returns the job of each host.
func (s *launchSettings) remoteJobs(c *cobra.Command, address string) ([]remoteJob, error) {
	secret := s.jobSecret()
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var common []string
	c.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(flagsOfHosts, flag.Name) {
			common = append(common, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	nodes := strconv.Itoa(len(s.hosts))
	if s.cluster.MinHosts < len(s.hosts) {
		nodes = strconv.Itoa(s.cluster.MinHosts) + ":" + nodes
	}
	var jobs []remoteJob
	for i, h := range s.hosts {
		args := append(slices.Clone(common), "--nnodes="+nodes, "--node_rank="+strconv.Itoa(i), "--nproc_per_node="+strconv.Itoa(h.Slots))
		if address != "" {
			args = append(args, "--master_addr="+address)
		}
		env := passedOn(os.Environ())
		if h.Devices != nil {
			env["CUDA_VISIBLE_DEVICES"] = joinInts(h.Devices)
		}
		jobs = append(jobs, remoteJob{Host: h.Name, Dir: dir, Args: append(append(args, "--"), c.Flags().Args()...), Env: env, Secret: secret})
	}
	return jobs, nil
}

// flagsOfHosts are the flags that each host's launcher gets with its own value, or not at all.
var flagsOfHosts = []string{
	"hostfile", "include", "exclude", "launcher", "launcher_args", "ssh_port", "no_ssh", "no_ssh_check", "force_multi", "deepspeed_hostfile", "deepspeed_inclusion_filter",
	"deepspeed_exclusion_filter", "deepspeed_multinode_launcher", "nnodes", "num_nodes", "num_machines", "node_rank", "machine_rank", "nproc_per_node", "num_gpus", "num_processes",
	"master_addr", "main_process_ip", "secret_file", "local_addr", "min_elastic_nodes", "max_elastic_nodes", "help",
}

// jobSecret returns the user's secret, or a new one.
func (s *launchSettings) jobSecret() string {
	if s.cluster.Insecure || s.cluster.Secret != nil {
		return string(s.cluster.Secret)
	}
	b := make([]byte, 32)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// passedOn returns the variables that the other hosts' launchers get: those of the libraries of programs, and
// where programs are found. Others are set by the hosts themselves.
func passedOn(environ []string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, v, _ := strings.Cut(kv, "=")
		prefixed := slices.ContainsFunc([]string{"NCCL_", "TORCH", "GLOO_", "OMP_", "MKL_", "UCX_", "MV2_", "FI_", "PYTHON", "HF_", "WANDB_", "XLA_", "ACCELERATE_", "TRIREME_"}, func(p string) bool { return strings.HasPrefix(name, p) })
		exact := slices.Contains([]string{"PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "TOKENIZERS_PARALLELISM"}, name)
		if (prefixed || exact) && !internalVars[name] {
			out[name] = v
		}
	}
	return out
}
