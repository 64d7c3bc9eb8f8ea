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

// Config is what to launch. Nproc and Command must be set; the zero value of the rest is
// the default.
type Config struct {
	Nproc   int      // workers on this machine
	Command []string // program and arguments; the program is looked up in PATH
	Env     []string // KEY=value, the workers' environment before ours is added; nil: this process's
	Dir     string   // working directory; "": this process's

	// Nodes and NodeRank are for a job on several machines, each with a launcher of its own
	// and the same Nproc. They then need MasterAddr, MasterPort and RunID, the same everywhere,
	// and a secret in a file (rendezvous.SecretFileVar). 0: one machine.
	Nodes, NodeRank int
	MasterAddr      string // "": 127.0.0.1
	MasterPort      int    // 0: a free port, a new one each attempt
	RunID           string // "": a random one

	MaxRestarts int
	// Grace is how long the other workers have to end once one has failed, and how long a worker
	// may take to say that it has heard a signal (HandleSignals says so). Then they are killed.
	// 0: five seconds.
	Grace time.Duration
	// StoppedTimeout is how long a worker may be stopped (SIGSTOP) before it counts as lost. Other ranks see
	// that sooner, once they have met. 0: one second.
	StoppedTimeout time.Duration
	// StopGrace is how long workers that have heard a signal may take to end. Then they are killed.
	// 0: ten minutes.
	StopGrace time.Duration

	// LogDir gets rank-NNNN.log, all output of each rank, appended. "": none.
	LogDir string
	// Stdout and Stderr get rank 0's output as it comes. nil: this process's. They may be
	// written from several goroutines, one at a time.
	Stdout, Stderr io.Writer
	// ShowAll shows the other ranks' output too, line by line after "[rank 3] ".
	ShowAll bool

	// Files are handed to rank 0, closed here by the caller; each key is a variable that holds
	// the descriptor's number there.
	Files map[string]*os.File

	// Signals are those that this process gets (see Shutdown.Forward). nil: none are handed on.
	Signals <-chan os.Signal
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	switch {
	case c.Nproc < 1:
		return fmt.Errorf("launch: nproc is %d: it must be at least 1", c.Nproc)
	case len(c.Command) == 0 || c.Command[0] == "":
		return fmt.Errorf("launch: no program to launch")
	case c.MaxRestarts < 0:
		return fmt.Errorf("launch: max_restarts is %d: it must not be negative", c.MaxRestarts)
	case c.NodeRank < 0 || c.NodeRank >= max(c.Nodes, 1):
		return fmt.Errorf("launch: node rank %d of %d nodes", c.NodeRank, max(c.Nodes, 1))
	case c.Nodes > 1 && (c.MasterAddr == "" || c.MasterPort == 0):
		return fmt.Errorf("launch: %d nodes need a master address and port, the same on all", c.Nodes)
	}
	return nil
}

// env is the contract for one local rank in one attempt.
func (c Config) env(local, attempt, port int, run string) rendezvous.Env {
	e := rendezvous.Env{
		Rank: c.NodeRank*c.Nproc + local, WorldSize: max(c.Nodes, 1) * c.Nproc,
		LocalRank: local, LocalWorldSize: c.Nproc,
		GroupRank: c.NodeRank, GroupWorldSize: max(c.Nodes, 1),
		MasterAddr: c.MasterAddr, MasterPort: port,
		RunID: run, RestartCount: attempt, MaxRestarts: c.MaxRestarts,
	}
	if e.MasterAddr == "" {
		e.MasterAddr = "127.0.0.1"
	}
	return e
}

// inherited are variables of an outer launcher that must not reach our workers.
var inherited = map[string]bool{
	parentVar: true, reportVar: true, crashVar: true, rendezvous.SecretFDVar: true, rendezvous.SecretVar: true,
	"TORCHELASTIC_USE_AGENT_STORE": true, "TORCHELASTIC_ERROR_FILE": true,
}

// environ is base without what is replaced, and the additions.
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

// freePort is a port that is free now. Should another program take it before rank 0 does,
// rendezvous moves to the next.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func randomID() string { return strings.ToLower(rand.Text()[:12]) }

// logPath is where rank's output is kept, or "".
func (c Config) logPath(rank int) string {
	if c.LogDir == "" {
		return ""
	}
	return filepath.Join(c.LogDir, RankName(rank)+".log")
}

// RankName names a rank's files.
func RankName(rank int) string { return fmt.Sprintf("rank-%04d", rank) }
