package launch

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trireme/rendezvous"
)

// Config configures Run. Nproc and Command are required; zero values of the rest are defaults.
type Config struct {
	Nproc   int      // workers on this machine
	Ranks   int      // ranks of each worker, from RANK on (rendezvous.ProcessRanksVar); 0: 1
	Command []string // program, looked up in PATH, and arguments
	Env     []string // KEY=value, the workers' base environment; nil: this process's
	Dir     string   // working directory; "": this process's

	// Foreign is for programs whose exit codes do not have the meanings of this package: 75 is a failure, and
	// 2, 3 and 4 are no reason against a restart.
	Foreign bool

	World World

	// Grace is the time that the other workers have to end after one has failed, and that a worker has
	// to acknowledge a signal (HandleSignals does). Then they are killed. 0: five seconds.
	Grace time.Duration
	// StoppedTimeout is the time for which a worker may be stopped (SIGSTOP) before it is lost. After
	// rendezvous, other ranks detect it sooner. 0: one second.
	StoppedTimeout time.Duration
	// StopGrace is the time that workers have to end after a stop signal. Then they are killed. 0: ten
	// minutes.
	StopGrace time.Duration

	// LogDir is the directory of rank-NNNN.log, to which each worker's output is appended. A worker with
	// several ranks has the file of its first. "": none.
	LogDir string
	// Stdout and Stderr receive the output that Output shows. nil: this process's. Writes come from several
	// goroutines, one at a time.
	Stdout, Stderr io.Writer
	Output         Output
	Role           string // ROLE_NAME; "": default

	// Files are inherited by rank 0's worker. A key is the variable that is set to the descriptor's number. The
	// caller closes the files.
	Files map[string]*os.File

	// Processors are those of each worker's threads, by number, on Linux (internal/numa). The threads that Go's runtime
	// uses in a worker are those of this process, or fewer if the worker's part of the processors is smaller.
	// nil: all of this process.
	Processors [][]int

	// Memory is a file of NewMemory, for checkpoints that outlive workers which are restarted. All workers inherit
	// it. The caller closes it. nil: none.
	Memory *os.File

	// Signals are signals to forward to the workers (Shutdown.Forward). nil: none.
	Signals <-chan os.Signal
	// Failing is called once, when a worker fails and the others are going to be stopped, with its exit code.
	// It must not block. nil: none.
	Failing func(code int)
}

// World is the part of this machine's workers in a job on several machines, one start of all its workers. The
// zero value is a job on this machine.
type World struct {
	FirstRank  int    // of this machine's ranks, which are consecutive
	Size       int    // ranks of the job; 0: those of this machine
	FirstSize  int    // Size of the first generation; 0: Size
	Host       int    // index of this machine (GROUP_RANK)
	Hosts      int    // number of machines; 0: 1
	MasterAddr string // "": 127.0.0.1
	MasterPort int    // 0: a free port
	RunID      string // "": random
	// Generation numbers the starts of the job (TORCHELASTIC_RESTART_COUNT): ranks of another one are refused.
	Generation  int
	MaxRestarts int // for TORCHELASTIC_MAX_RESTARTS
	// Secret is the job's secret (rendezvous.SecretFileVar), which workers inherit. nil: random on one machine;
	// on several, from the workers' environment.
	Secret []byte
	// Insecure leaves the connections of workers on several machines plain, and lets them join without a secret
	// (rendezvous.InsecureVar).
	Insecure bool
}

// Validate checks c.
func (c Config) Validate() error {
	w := &c.World
	switch {
	case c.Nproc < 1:
		return fmt.Errorf("launch: nproc is %d: it must be at least 1", c.Nproc)
	case len(c.Command) == 0 || c.Command[0] == "":
		return fmt.Errorf("launch: no program to launch")
	case c.Processors != nil && len(c.Processors) != c.Nproc:
		return fmt.Errorf("launch: processors of %d workers for %d", len(c.Processors), c.Nproc)
	case c.Ranks < 0:
		return fmt.Errorf("launch: %d ranks per worker: must not be negative", c.Ranks)
	case w.Host < 0 || w.Host >= max(w.Hosts, 1):
		return fmt.Errorf("launch: host %d of %d", w.Host, max(w.Hosts, 1))
	case w.FirstRank < 0 || w.Size != 0 && w.FirstRank+c.ranks() > w.Size:
		return fmt.Errorf("launch: ranks %d to %d of %d", w.FirstRank, w.FirstRank+c.ranks()-1, w.Size)
	case w.Hosts > 1 && (w.Size == 0 || w.MasterAddr == "" || w.MasterPort == 0 || w.RunID == ""):
		return fmt.Errorf("launch: %d machines need a world size, a master address and port, and a run id, the same on all", w.Hosts)
	}
	return nil
}

// ranks returns the number of ranks on this machine.
func (c *Config) ranks() int { return c.Nproc * max(c.Ranks, 1) }

// complete sets the defaults of World.
func (c *Config) complete() (err error) {
	w := &c.World
	w.Hosts = max(w.Hosts, 1)
	if w.Size == 0 {
		w.Size = c.ranks()
	}
	if w.FirstSize == 0 {
		w.FirstSize = w.Size
	}
	if w.MasterAddr == "" {
		w.MasterAddr = "127.0.0.1"
	}
	if w.MasterPort == 0 {
		w.MasterPort, err = FreePort(w.MasterAddr)
	}
	if w.RunID == "" {
		w.RunID = RandomID()
	}
	return err
}

// Lookup returns a variable of the workers' base environment, as os.LookupEnv does.
func (c Config) Lookup(name string) (value string, ok bool) {
	if c.Env == nil {
		return os.LookupEnv(name)
	}
	for _, kv := range c.Env {
		if v, found := strings.CutPrefix(kv, name+"="); found {
			value, ok = v, true // the last counts
		}
	}
	return value, ok
}

// env returns the variables of a worker. World is complete.
func (c *Config) env(local int) rendezvous.Env {
	n, w := max(c.Ranks, 1), &c.World
	return rendezvous.Env{
		Rank: w.FirstRank + local*n, WorldSize: w.Size, LocalRank: local * n, LocalWorldSize: c.ranks(), Ranks: n,
		GroupRank: w.Host, GroupWorldSize: w.Hosts, MasterAddr: w.MasterAddr, MasterPort: w.MasterPort,
		RunID: w.RunID, RestartCount: w.Generation, MaxRestarts: w.MaxRestarts,
		FirstWorldSize: w.FirstSize, Insecure: w.Insecure, Loopback: w.Hosts > 1 && rendezvous.IsLoopback(w.MasterAddr),
	}
}

// inherited are variables of an outer launcher that workers must not get.
var inherited = map[string]bool{
	parentVar: true, reportVar: true, crashVar: true, rendezvous.SecretFDVar: true, rendezvous.SecretVar: true,
	rendezvous.LoopbackVar: true, rendezvous.FirstWorldVar: true,
	memoryVar: true, "TORCHELASTIC_USE_AGENT_STORE": true, errorFileVar: true,
}

// environ returns base with add, which replaces variables, and without inherited ones.
func environ(base, add []string) []string {
	drop := map[string]bool{}
	for _, kv := range add {
		k, _, _ := strings.Cut(kv, "=")
		drop[k] = true
	}
	var out []string
	for _, kv := range base {
		if k, _, _ := strings.Cut(kv, "="); !drop[k] && !inherited[k] {
			out = append(out, kv)
		}
	}
	return append(out, add...)
}

// FreePort returns a free port of an address of this machine. If another program takes it first, rendezvous
// uses the next.
func FreePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (c Config) role() string {
	if c.Role == "" {
		return "default"
	}
	return c.Role
}

// RandomID returns a random name for a job without one.
func RandomID() string { return strings.ToLower(rand.Text()[:12]) }

func (c Config) logPath(rank int) string {
	if c.LogDir == "" {
		return ""
	}
	return filepath.Join(c.LogDir, RankName(rank)+".log")
}

// RankName returns the base name of a rank's files.
func RankName(rank int) string { return fmt.Sprintf("rank-%04d", rank) }

// rankNames names the process of n ranks from first on: "rank 3", "the process of ranks 4 to 7".
func rankNames(first, n int) string {
	if n <= 1 {
		return fmt.Sprintf("rank %d", first)
	}
	return fmt.Sprintf("the process of ranks %d to %d", first, first+n-1)
}
