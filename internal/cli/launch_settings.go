package cli

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/cluster"
	"trireme/internal/hostfile"
	"trireme/internal/netif"
	"trireme/launch"
	"trireme/rendezvous"
)

// launchSettings are the resolved flags of launch.
type launchSettings struct {
	cluster cluster.Config // of this machine
	logDir  string         // --log_dir
	program program
	hosts   []hostfile.Host // to start over ssh; nil: this machine only
	flags   *launchFlags
	notes   []string
}

func (s *launchSettings) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// settings resolves flags, PET_ variables, Accelerate's file and the hostfile, in this order of precedence.
func (f *launchFlags) settings(c *cobra.Command, args []string) (*launchSettings, error) {
	s := &launchSettings{flags: f}
	if err := f.readPET(); err != nil {
		return nil, err
	}
	if err := f.refuse(s); err != nil {
		return nil, err
	}
	file, err := f.readAccelerate(c)
	if err != nil {
		return nil, err
	}
	var env []string
	for _, step := range []func() error{
		func() error { return f.readTasks(s) },
		func() error { return f.readHosts(s) },
		func() error { return f.hostsAndRank(s, file) },
		func() error { return f.addresses(s, file) },
		func() (err error) { s.program, err = f.program(args); return err },
		func() error { return f.workers(s, file) },
		func() (err error) { env, err = f.childSettings(s, file); return err },
		func() error { return f.readSecret(s) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if f.preflight && s.cluster.MaxHosts == 1 {
		s.note("--preflight: no effect: the job has one machine. trireme doctor checks it")
	}
	base, notes := s.program.environment(s.cluster.Workers.Nproc)
	s.notes = append(s.notes, notes...)
	s.cluster.Workers.Env = append(base, env...)
	if s.hosts != nil { // the launcher of each host has its own
		return s, nil
	}
	if err := s.cluster.Validate(); err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return s, nil
}

// refuse refuses flags without a meaning here, and notes those without effect.
func (f *launchFlags) refuse(s *launchSettings) error {
	changed := func(name string) bool { return f.flags.Lookup(name).Changed }
	switch {
	case f.logsSpecs != "":
		return usage("--logs_specs loads a Python class, which is not supported", "--log_dir, --redirects and --tee")
	case f.maxRestarts < 0:
		return usage(fmt.Sprintf("--max_restarts is %d: it must not be negative", f.maxRestarts), "--max_restarts 3")
	case !(f.shutdownTimeout > 0 && f.shutdownTimeout < 1e7):
		return usage(fmt.Sprintf("--shutdown_timeout is %v, not a positive number of seconds", f.shutdownTimeout), "--shutdown_timeout 30")
	case !(f.monitorInterval > 0):
		return usage(fmt.Sprintf("--monitor_interval is %v, not a positive number of seconds", f.monitorInterval), "without it: it has no effect")
	case !slices.Contains([]string{"spawn", "fork", "forkserver"}, f.startMethod):
		return usage(fmt.Sprintf("--start_method is %q, not spawn, fork or forkserver", f.startMethod), "without it: it has no effect")
	case strings.ContainsAny(f.rdzvID, "/\x00\n") || f.rdzvID == "" || len(f.rdzvID) > 200:
		return usage(fmt.Sprintf("--rdzv_id is %.40q, not 1 to 200 characters without /", f.rdzvID), "--rdzv_id run1")
	case f.role == "" || strings.ContainsAny(f.role, "\x00\n"):
		return usage(fmt.Sprintf("--role is %q, not a name", f.role), "--role trainer")
	}
	for name, why := range map[string]string{
		"monitor_interval": "a worker's end is noticed at once", "start_method": "workers are processes", "event_log_handler": "events are in the launcher's output",
	} {
		if changed(name) {
			s.note("--%s has no effect: %s", name, why)
		}
	}
	for _, o := range otherFlags {
		switch {
		case !changed(o.name):
		case o.refused != "":
			return usage(fmt.Sprintf("--%s of %s is not supported", o.name, o.owner), o.refused)
		case o.without != "":
			s.note("--%s has no effect: %s", o.name, o.without)
		}
	}
	slices.Sort(s.notes)
	return nil
}

// hostsAndRank sets the number of hosts and this one's position.
func (f *launchFlags) hostsAndRank(s *launchSettings, file accelerateFile) error {
	nodes, err := f.one("nnodes", "num_nodes", "num_machines")
	if err != nil {
		return err
	}
	if nodes == nil {
		nodes = file.first("num_machines")
	}
	switch {
	case nodes != nil:
		if s.cluster.MinHosts, s.cluster.MaxHosts, err = parseNodes(nodes); err != nil {
			return err
		}
	case s.hosts != nil:
		s.cluster.MinHosts, s.cluster.MaxHosts = len(s.hosts), len(s.hosts)
	default:
		s.cluster.MinHosts, s.cluster.MaxHosts = 1, 1
	}
	for name, to := range map[string]*int{"min_elastic_nodes": &s.cluster.MinHosts, "max_elastic_nodes": &s.cluster.MaxHosts} {
		if flag := f.flags.Lookup(name); flag.Changed {
			least, _, err := parseNodes(&given{flag.Value.String(), "--" + name})
			if err != nil {
				return err
			}
			*to = least
		}
	}
	rank, err := f.one("node_rank", "machine_rank")
	if err != nil {
		return err
	}
	if rank == nil {
		rank = file.first("machine_rank")
	}
	if rank == nil {
		return nil
	}
	n, err := strconv.Atoi(rank.value)
	if err != nil || n < 0 || n >= s.cluster.MaxHosts {
		return usage(fmt.Sprintf("%s is %s, not 0 to %d: --nnodes is %d", rank.from, rank.value, s.cluster.MaxHosts-1, s.cluster.MaxHosts), "--nnodes N, the number of machines")
	}
	s.cluster.NodeRank = &n
	return nil
}

// workers sets the workers of this machine, except their environment.
func (f *launchFlags) workers(s *launchSettings, file accelerateFile) (err error) {
	w := &s.cluster.Workers
	if s.hosts == nil {
		if w.Nproc, err = f.workersPerHost(s, file); err != nil {
			return err
		}
	} else {
		w.Nproc = 1 // of each machine: hostConfig
	}
	if w.Output, err = f.output(); err != nil {
		return err
	}
	w.Command, w.Role, w.Foreign = s.program.command, f.role, s.program.trireme == nil
	if s.program.trireme == nil || f.flags.Lookup("shutdown_timeout").Changed { // trireme's ranks end early, and save
		w.Grace = seconds(f.shutdownTimeout)
		w.StopGrace = w.Grace
	}
	s.logDir = f.logDir
	if each := f.flags.Lookup("enable_each_rank_log"); each.Changed {
		s.logDir = each.Value.String()
		w.Output.Redirects = launch.AllStreams()
	}
	if s.logDir != "" && !w.Output.Redirects.Any() && !w.Output.Tee.Any() {
		s.note("--log_dir has only error files without --tee 3 (files and terminal) or --redirects 3 (files only)")
	}
	return nil
}

// workersPerHost returns the number of workers of this machine.
func (f *launchFlags) workersPerHost(s *launchSettings, file accelerateFile) (int, error) {
	per, err := f.one("nproc_per_node", "num_gpus")
	if err != nil {
		return 0, err
	}
	total, err := f.one("num_processes")
	if err != nil {
		return 0, err
	}
	if total == nil && per == nil {
		total = file.first("num_processes")
	}
	if per != nil && per.from == "--num_gpus" && per.value == "-1" { // deepspeed's default
		per.value = "auto"
	}
	switch {
	case total != nil:
		n, err := strconv.Atoi(total.value)
		if err == nil && n < 1 {
			return 0, usage(fmt.Sprintf("%s is %s, not a number from 1", total.from, total.value), "--num_processes N, for all machines")
		}
		if err != nil || n%s.cluster.MaxHosts != 0 || n/s.cluster.MaxHosts > maxNproc {
			return 0, usage(fmt.Sprintf("%s is %s, not a multiple of the %d machines", total.from, total.value, s.cluster.MaxHosts), "--nproc_per_node N, for each machine")
		}
		n /= s.cluster.MaxHosts
		if per != nil && per.value != strconv.Itoa(n) {
			return 0, usage(fmt.Sprintf("%s %s on %s contradicts %s %s", total.from, total.value, number(int64(s.cluster.MaxHosts), "machine"), per.from, per.value), "one of them")
		}
		return n, nil
	case per == nil:
		return 1, nil
	}
	return workersHere(*per)
}

// readSecret sets the job's secret of several machines.
func (f *launchFlags) readSecret(s *launchSettings) error {
	if s.cluster.MaxHosts == 1 {
		return nil
	}
	var err error
	if s.cluster.Secret, err = rendezvous.ReadSecret(f.secret.lookup); err != nil {
		return &Exit{CodeUsage, f.secret.named(err)}
	}
	s.cluster.Insecure, err = rendezvous.ReadInsecure(f.secret.lookup)
	return err
}

// acrossHosts passes --local_addr to the workers, and sets the check of --preflight.
func (s *launchSettings) acrossHosts(stderr io.Writer) {
	w := &s.cluster.Workers
	if ip, err := netip.ParseAddr(s.cluster.LocalAddr); err == nil && !ip.IsLoopback() {
		if w.Env == nil {
			w.Env = os.Environ()
		}
		w.Env = append(w.Env, netif.LocalAddrVar+"="+ip.String())
	}
	if s.flags.preflight {
		s.cluster.Preflight = preflightOf(stderr)
	}
}

// runHere runs the workers of this machine.
func (s *launchSettings) runHere(ctx context.Context, stdout, stderr io.Writer) error {
	if s.cluster.Insecure {
		fmt.Fprintln(stderr, insecureWarning(s.cluster.Secret))
	}
	w := &s.cluster.Workers
	w.Stdout, w.Stderr = stdout, stderr
	kept := s.logDir != "" || w.Output.Redirects.Any() || w.Output.Tee.Any()
	dir := s.logDir
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &Exit{CodeUsage, fmt.Errorf("--log_dir: %w", err)}
	}
	dir, err := os.MkdirTemp(dir, s.cluster.RunID+"_")
	if err != nil {
		return &Exit{CodeUsage, fmt.Errorf("--log_dir: %w", err)}
	}
	if w.Output.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if kept {
		fmt.Fprintf(stderr, "logs: %s\n", w.Output.Dir)
	} else {
		defer os.RemoveAll(dir)
	}
	s.acrossHosts(stderr)
	if err := s.bind(stderr); err != nil {
		return err
	}
	code, err := cluster.Run(ctx, s.cluster)
	if err != nil || code != 0 {
		return &Exit{code, err}
	}
	return nil
}
