package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// launchFlags are the flags of launch. Flags of accelerate and deepspeed are in otherFlags.
type launchFlags struct {
	flags  *pflag.FlagSet
	secret secretFlags

	nnodes, nproc                            string
	rdzvBackend, rdzvEndpoint, rdzvID, conf  string
	standalone                               bool
	maxRestarts                              int
	monitorInterval                          float64
	startMethod, eventLogHandler, role       string
	module, noPython, runPath                bool
	logDir, redirects, tee, localRanks       string
	nodeRank                                 int
	masterAddr                               string
	masterPort                               int
	localAddr, logsSpecs, numaBinding        string
	shutdownTimeout                          float64
	preflight                                bool
	hostfile, include, exclude, launcherArgs string
	sshPort                                  int
	noSSH, forceMulti                        bool
	remote                                   bool // started over ssh by another launcher
	rendering                                renderFlags
}

// register adds the flags. Usage texts of torchrun's flags come first.
func (f *launchFlags) register(p *pflag.FlagSet) {
	f.flags = p
	p.SortFlags = false
	p.StringVar(&f.nnodes, "nnodes", "1", "number of machines `N`, or MIN:MAX for a job whose machines may leave and join")
	p.StringVar(&f.nproc, "nproc_per_node", "1", "workers on this machine: `N`, gpu, cpu, or auto (one per GPU, or per processor without GPUs)")
	p.BoolVar(&f.standalone, "standalone", false, "run on this machine only, on a free port")
	p.IntVar(&f.nodeRank, "node_rank", 0, "position `N` of this machine, from 0 (required with --master_addr on several machines)")
	p.StringVar(&f.masterAddr, "master_addr", "", "`HOST` or address of machine 0 (default 127.0.0.1)")
	p.IntVar(&f.masterPort, "master_port", 0, "MASTER_PORT of the workers; the launchers use `PORT` + 1 (default 29500)")
	p.StringVar(&f.rdzvEndpoint, "rdzv_endpoint", "", "`HOST:PORT` at which the launchers join, or three of them, separated by commas")
	p.StringVar(&f.rdzvBackend, "rdzv_backend", "", "`NAME`: c10d or nats (built in), static, etcd (default: built in)")
	p.StringVar(&f.rdzvID, "rdzv_id", "none", "`ID` of the job, equal on all machines")
	p.StringVar(&f.conf, "rdzv_conf", "", "settings of joining, `KEY=VALUE,...`: join_timeout, last_call_timeout, ... in seconds")
	p.StringVar(&f.localAddr, "local_addr", "", "`ADDRESS` at which other machines reach this one")
	p.IntVar(&f.maxRestarts, "max_restarts", 0, "restarts `N` after a failed worker")
	p.Float64Var(&f.shutdownTimeout, "shutdown_timeout", 30, "`SECONDS` that workers have to end after SIGTERM")
	p.Float64Var(&f.monitorInterval, "monitor_interval", 0.1, "no effect: a worker's end is noticed at once")
	p.StringVar(&f.startMethod, "start_method", "spawn", "no effect: workers are processes (spawn, fork, forkserver)")
	p.StringVar(&f.eventLogHandler, "event_log_handler", "null", "no effect: events are in the launcher's output")
	p.StringVar(&f.role, "role", "default", "`NAME` of the workers (ROLE_NAME)")
	p.BoolVarP(&f.module, "module", "m", false, "PROGRAM is a Python module")
	p.BoolVar(&f.noPython, "no_python", false, "run PROGRAM itself, even if it is a .py file")
	p.BoolVar(&f.runPath, "run_path", false, "run PROGRAM by Python")
	p.StringVar(&f.logDir, "log_dir", "", "`DIR` of the workers' files: ID_*/attempt_N/LOCAL_RANK/stdout.log, stderr.log, error.json")
	p.StringVarP(&f.redirects, "redirects", "r", "0", "streams to files only: `0`, 1 (stdout), 2 (stderr), 3 (both), or per local rank 0:3,1:1")
	p.StringVarP(&f.tee, "tee", "t", "0", "streams to files and the terminal, with a prefix: as --redirects")
	p.StringVar(&f.localRanks, "local_ranks_filter", "", "show the output of these local `RANKS` only: 0,1")
	p.StringVar(&f.logsSpecs, "logs_specs", "", "refused: use --log_dir, --redirects and --tee")
	p.StringVar(&f.numaBinding, "numa_binding", "", "bind workers to the processors of NUMA nodes: `POLICY` auto, node or none (default: device.numa of trireme train, none for other programs)")
	f.secret.add(p)
	p.BoolVar(&f.preflight, "preflight", false, "check the machines against each other before the first start, as trireme doctor --nnodes does")

	p.StringVarP(&f.hostfile, "hostfile", "H", "", "`FILE` with a line \"NAME slots=N\" per machine, which are started over ssh")
	p.StringVarP(&f.include, "include", "i", "", "machines and devices of the hostfile to `USE`: h1:0,2@h2")
	p.StringVarP(&f.exclude, "exclude", "e", "", "machines and devices of the hostfile to `LEAVE` out: h1:0,2@h2")
	p.IntVar(&f.sshPort, "ssh_port", 0, "`PORT` of ssh")
	p.StringVar(&f.launcherArgs, "launcher_args", "", "further `ARGUMENTS` of ssh, in one word: \"-F config\"")
	p.BoolVar(&f.noSSH, "no_ssh", false, "start this machine only, the --node_rank of the hostfile")
	p.BoolVar(&f.forceMulti, "force_multi", false, "use ssh for this machine too")
	f.rendering.register(p)
	p.BoolVar(&f.remote, "remote", false, "")
	p.MarkHidden("remote")
	for _, o := range otherFlags {
		switch {
		case o.number:
			p.Int(o.name, 0, o.usage())
		case o.bare:
			p.Bool(o.name, false, o.usage())
		default:
			p.String(o.name, "", o.usage())
		}
		p.MarkHidden(o.name) // docs/clusters.md has them
	}
}

// torchrunFlags have PET_ variables.
var torchrunFlags = []string{
	"nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "standalone", "max_restarts", "monitor_interval", "start_method",
	"event_log_handler", "role", "module", "no_python", "run_path", "log_dir", "redirects", "tee", "local_ranks_filter", "node_rank", "master_addr", "master_port", "local_addr",
}

// readPET sets flags that are not on the command line from the environment, as torchrun does.
func (f *launchFlags) readPET() error {
	for _, name := range torchrunFlags {
		variable := "PET_" + strings.ToUpper(name)
		v := os.Getenv(variable)
		flag := f.flags.Lookup(name)
		if v == "" || flag.Changed {
			continue
		}
		if err := f.flags.Set(name, v); err != nil {
			want := "a valid value"
			if w, ok := flagTypes[flag.Value.Type()]; ok {
				want = w
			}
			return usage(fmt.Sprintf("%s=%q is not %s", variable, v, want), "unset it, or --"+name)
		}
	}
	return nil
}

// given is a value with its origin: a flag, a variable or a file.
type given struct{ value, from string }

// one returns the value that one of several flags sets; nil if none does. Different values are an error that
// names both flags.
func (f *launchFlags) one(names ...string) (*given, error) {
	var found *given
	for _, name := range names {
		flag := f.flags.Lookup(name)
		if !flag.Changed {
			continue
		}
		s := &given{flag.Value.String(), "--" + name}
		if found != nil && found.value != s.value {
			return nil, usage(fmt.Sprintf("%s %s contradicts %s %s", s.from, s.value, found.from, found.value), "one of them")
		}
		if found == nil {
			found = s
		}
	}
	return found, nil
}

// parseNodes parses N or MIN:MAX.
func parseNodes(s *given) (least, most int, err error) {
	low, high, ranged := strings.Cut(s.value, ":")
	least, err = strconv.Atoi(low)
	most = least
	if ranged && err == nil {
		most, err = strconv.Atoi(high)
	}
	if err != nil || least < 1 || most < least || most > maxNodes {
		return 0, 0, usage(fmt.Sprintf("%s is %q, not a number N or a range MIN:MAX from 1 to %d", s.from, s.value, maxNodes), "--nnodes 2, or --nnodes 1:4")
	}
	return least, most, nil
}

const (
	maxNodes = 1 << 16
	maxNproc = 1 << 12
)

// parseLocalRanks parses a list of local ranks; nil for "".
func parseLocalRanks(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var ranks []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 || n >= maxNproc {
			return nil, usage(fmt.Sprintf("--local_ranks_filter is %q, not local ranks separated by commas", text), "--local_ranks_filter 0,1")
		}
		if !slices.Contains(ranks, n) {
			ranks = append(ranks, n)
		}
	}
	return ranks, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
