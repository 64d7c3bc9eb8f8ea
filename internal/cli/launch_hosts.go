package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"trireme/device"
	"trireme/internal/cluster"
	"trireme/internal/hostfile"
)

// readHosts reads the hostfile and selects its hosts. A single host that is this machine needs no ssh.
func (f *launchFlags) readHosts(s *launchSettings) error {
	launcher, err := f.one("launcher", "deepspeed_multinode_launcher")
	if err != nil {
		return err
	}
	if launcher != nil && !slices.Contains([]string{"ssh", "pdsh", "standard"}, strings.ToLower(launcher.value)) {
		return usage(fmt.Sprintf("%s is %q: hosts of a hostfile are started over ssh", launcher.from, launcher.value), "without it, or mpirun or srun before trireme train")
	}
	include, err := f.one("include", "deepspeed_inclusion_filter")
	if err != nil {
		return err
	}
	exclude, err := f.one("exclude", "deepspeed_exclusion_filter")
	if err != nil {
		return err
	}
	hosts, err := f.hosts()
	if err != nil {
		return err
	}
	text := func(g *given) string {
		if g == nil {
			return ""
		}
		return g.value
	}
	if hosts == nil && text(include)+text(exclude) != "" {
		if hosts, err = thisHost(); err != nil {
			return err
		}
	}
	if hosts == nil {
		if f.noSSH || f.forceMulti {
			return usage("--no_ssh and --force_multi need a hostfile", "--hostfile FILE")
		}
		return nil
	}
	if hosts, err = hostfile.Select(hosts, text(include), text(exclude)); err != nil {
		return &Exit{CodeUsage, err}
	}
	if hosts, err = f.limitHosts(hosts); err != nil {
		return err
	}
	if f.noSSH {
		return f.withoutSSH(hosts)
	}
	if len(hosts) == 1 && cluster.IsThisHost(context.Background(), hosts[0].Name) && !f.forceMulti {
		return f.onlyHere(s, hosts[0])
	}
	s.hosts = hosts
	return nil
}

func (f *launchFlags) hosts() ([]hostfile.Host, error) {
	file, err := f.one("hostfile", "deepspeed_hostfile")
	if file == nil || err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file.value)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	hosts, err := hostfile.Parse(file.value, string(text))
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return hosts, nil
}

// thisHost returns this machine with its GPUs, for --include localhost:0,1 without a hostfile.
func thisHost() ([]hostfile.Host, error) {
	n, err := device.VisibleGPUs(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, usage("--include and --exclude select GPUs or hosts, but there is no hostfile and no visible GPU", "--hostfile FILE, or --nproc_per_node N")
	}
	return []hostfile.Host{{Name: "localhost", Slots: n}}, nil
}

// limitHosts applies --num_nodes and --num_gpus, which select the first hosts and slots.
func (f *launchFlags) limitHosts(hosts []hostfile.Host) ([]hostfile.Host, error) {
	nodes, err := f.one("nnodes", "num_nodes", "num_machines")
	if err != nil {
		return nil, err
	}
	if nodes != nil {
		_, most, err := parseNodes(nodes)
		if err != nil {
			return nil, err
		}
		if most > len(hosts) {
			return nil, usage(fmt.Sprintf("%s is %s, but the hostfile has %s", nodes.from, nodes.value, number(int64(len(hosts)), "host")), fmt.Sprintf("%s %d", nodes.from, len(hosts)))
		}
		hosts = hosts[:most]
	}
	per, err := f.one("nproc_per_node", "num_gpus")
	if per == nil || err != nil || per.value == "-1" {
		return hosts, err
	}
	n, err := parseNproc(*per)
	if err != nil || n == 0 { // auto: the slots
		return hosts, err
	}
	for i := range hosts {
		h := &hosts[i]
		if h.Devices != nil && n > len(h.Devices) {
			return nil, usage(fmt.Sprintf("%s is %d, but --include and --exclude leave %s on %s", per.from, n, number(int64(len(h.Devices)), "device"), h.Name), fmt.Sprintf("%s %d", per.from, len(h.Devices)))
		}
		if h.Slots = n; h.Devices != nil {
			h.Devices = h.Devices[:n]
		}
	}
	return hosts, nil
}

// withoutSSH takes the numbers of --no_ssh from the hostfile: this command runs on each host.
func (f *launchFlags) withoutSSH(hosts []hostfile.Host) error {
	rank := 0
	given, err := f.one("node_rank", "machine_rank")
	if err != nil {
		return err
	}
	if given != nil {
		rank, err = strconv.Atoi(given.value)
	}
	if given == nil || err != nil || rank < 0 || rank >= len(hosts) {
		return usage("--no_ssh needs the position of this machine in the hostfile", fmt.Sprintf("--node_rank N, 0 to %d", len(hosts)-1))
	}
	if hosts[rank].Devices != nil {
		os.Setenv("CUDA_VISIBLE_DEVICES", joinInts(hosts[rank].Devices))
	}
	for name, v := range map[string]string{"nnodes": strconv.Itoa(len(hosts)), "nproc_per_node": strconv.Itoa(hosts[rank].Slots), "master_addr": hosts[0].Name} {
		if name == "master_addr" && (f.masterAddr != "" || f.rdzvEndpoint != "") {
			continue
		}
		if err := f.flags.Set(name, v); err != nil {
			return err
		}
	}
	return nil
}

// onlyHere runs the only host of a hostfile, this machine, without ssh.
func (f *launchFlags) onlyHere(s *launchSettings, h hostfile.Host) error {
	if h.Devices != nil {
		os.Setenv("CUDA_VISIBLE_DEVICES", joinInts(h.Devices))
	}
	s.note("the only host, %s, is this machine: no ssh", h.Name)
	return f.flags.Set("nproc_per_node", strconv.Itoa(h.Slots))
}

func joinInts(all []int) string {
	var out []string
	for _, n := range all {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}
