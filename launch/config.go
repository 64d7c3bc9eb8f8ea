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

	// Nodes and NodeRank are for a job on several machines, with one launcher each and the same Nproc.
	// MasterAddr, MasterPort and RunID must then be equal on all, with a secret in a file
	// (rendezvous.SecretFileVar). 0: one machine.
	Nodes, NodeRank int
	MasterAddr      string // "": 127.0.0.1
	MasterPort      int    // 0: a free port per attempt
	RunID           string // "": random

	MaxRestarts int
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

	// Signals are signals to forward to the workers (Shutdown.Forward). nil: none.
	Signals <-chan os.Signal
}

// Validate checks c.
func (c Config) Validate() error {
	switch {
	case c.Nproc < 1:
		return fmt.Errorf("launch: nproc is %d: it must be at least 1", c.Nproc)
	case len(c.Command) == 0 || c.Command[0] == "":
		return fmt.Errorf("launch: no program to launch")
	case c.Ranks < 0:
		return fmt.Errorf("launch: %d ranks per worker: must not be negative", c.Ranks)
	case c.MaxRestarts < 0:
		return fmt.Errorf("launch: max_restarts is %d: it must not be negative", c.MaxRestarts)
	case c.NodeRank < 0 || c.NodeRank >= max(c.Nodes, 1):
		return fmt.Errorf("launch: node rank %d of %d nodes", c.NodeRank, max(c.Nodes, 1))
	case c.Nodes > 1 && (c.MasterAddr == "" || c.MasterPort == 0):
		return fmt.Errorf("launch: %d nodes need a master address and port, the same on all", c.Nodes)
	}
	return nil
}

func (c Config) env(local, attempt, port int, run string) rendezvous.Env {
	n := max(c.Ranks, 1)
	e := rendezvous.Env{
		Rank: (c.NodeRank*c.Nproc + local) * n, WorldSize: max(c.Nodes, 1) * c.Nproc * n,
		LocalRank: local * n, LocalWorldSize: c.Nproc * n, Ranks: n,
		GroupRank: c.NodeRank, GroupWorldSize: max(c.Nodes, 1),
		MasterAddr: c.MasterAddr, MasterPort: port,
		RunID: run, RestartCount: attempt, MaxRestarts: c.MaxRestarts,
	}
	if e.MasterAddr == "" {
		e.MasterAddr = "127.0.0.1"
	}
	return e
}

// inherited are variables of an outer launcher that workers must not get.
var inherited = map[string]bool{
	parentVar: true, reportVar: true, crashVar: true, rendezvous.SecretFDVar: true, rendezvous.SecretVar: true,
	"TORCHELASTIC_USE_AGENT_STORE": true, errorFileVar: true,
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

// freePort returns a free port. If another program takes it first, rendezvous uses the next.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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

func randomID() string { return strings.ToLower(rand.Text()[:12]) }

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
