//go:build linux

package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	kills    = flag.Int("kills", 40, "cases of TestKillMatrix; from 270 on each signal, victim, phase and number of ranks occurs")
	killSeed = flag.Uint64("killseed", 1, "seed of TestKillMatrix")
)

// killCase is one run that a signal hits.
type killCase struct {
	signal syscall.Signal
	victim string // a process (0 or 1) or launcher
	phase  string
	ranks  int
	delay  time.Duration // after the phase has begun
	tcp    bool          // over TCP instead of shared memory
	each   int           // ranks per process
	async  bool          // checkpoints are written in the background
}

// first returns the first rank of the victim.
func (c killCase) first() int {
	index, _ := strconv.Atoi(c.victim)
	return index * c.each
}

// names reports whether a line names the victim: its rank, or one or all ranks of its process.
func (c killCase) names(line string) bool {
	first := c.first()
	for rank := first; rank < first+c.each; rank++ {
		if strings.Contains(line, fmt.Sprintf("rank %d ", rank)) {
			return true
		}
	}
	return strings.Contains(line, fmt.Sprintf("the process of ranks %d to %d ", first, first+c.each-1))
}

func (c killCase) String() string {
	return fmt.Sprintf("%v to %s of %d ranks in %d processes over %s, async %v, %s+%v", signalNames[c.signal], c.victim, c.ranks, c.ranks/c.each, c.transport(), c.async, c.phase, c.delay)
}

func (c killCase) transport() string {
	if c.tcp {
		return "tcp"
	}
	return "shm"
}

var (
	signalNames = map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGSTOP: "STOP", syscall.SIGKILL: "KILL"}
	killSignals = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGSTOP, syscall.SIGKILL}
	killPhases  = []string{"startup", "rendezvous", "step", "save", "evaluation", "export"}
)

// killCases returns n cases: all combinations, starting with each signal in each phase, then signals at
// start-up.
func killCases(n int, r *rand.Rand) []killCase {
	var all []killCase
	add := func(c killCase) {
		switch c.phase {
		case "startup":
			c.delay = time.Duration(1+r.IntN([]int{20, 100}[r.IntN(2)])) * 10 * time.Millisecond
		case "rendezvous":
			c.delay = time.Duration(r.IntN(20*c.ranks)) * time.Millisecond
		default:
			c.delay = time.Duration(r.IntN(8)) * time.Millisecond
		}
		c.tcp = r.IntN(4) == 0
		if c.each = 1; c.ranks == 16 {
			c.each = []int{1, 4, 8}[r.IntN(3)]
		}
		c.async = len(all)%2 == 1
		all = append(all, c)
	}
	victims, worlds := []string{"launcher", "0", "1"}, []int{2, 2, 3, 2, 2, 3, 2, 16}
	for i := range min(n, 30) {
		add(killCase{killSignals[i%5], victims[r.IntN(3)], killPhases[i/5], worlds[r.IntN(len(worlds))], 0, false, 1, false})
	}
	if n >= 270 {
		all = nil
		for _, s := range killSignals {
			for _, v := range victims {
				for _, p := range killPhases {
					for _, w := range []int{2, 3, 16} {
						add(killCase{s, v, p, w, 0, false, 1, false})
					}
				}
			}
		}
	}
	for len(all) < n {
		add(killCase{killSignals[r.IntN(5)], victims[r.IntN(3)], killPhases[r.IntN(2)], worlds[r.IntN(len(worlds))], 0, false, 1, false})
	}
	return all
}

// killOutcome is the outcome of a case.
type killOutcome struct {
	killCase
	code   int
	last   string // line
	took   time.Duration
	late   bool // the run ended before the phase or the victim was seen
	lines  int  // of records when it was hit
	total  int  // in the end
	failed []string
}

// TestKillMatrix sends a signal to a run in each phase: the run ends in time with the exit code in
// README, names the root cause, leaves nothing behind, and resumes to the bits of an undisturbed run.
func TestKillMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	exe, err := exec.LookPath("trireme")
	if err != nil {
		t.Fatal(err)
	}
	m := &killMatrix{exe: exe, dir: t.TempDir()}
	m.write(t)
	if err := os.MkdirAll(m.temp("whole"), 0o755); err != nil {
		t.Fatal(err)
	}
	whole := m.command("whole", "none", killCase{ranks: 2, each: 1})
	if out, err := whole.CombinedOutput(); err != nil {
		t.Fatalf("the undisturbed run: %v\n%s", err, out)
	}
	var mu sync.Mutex
	var all []killOutcome
	t.Run("cases", func(t *testing.T) {
		for i, c := range killCases(*kills, rand.New(rand.NewPCG(*killSeed, 0))) {
			t.Run(fmt.Sprintf("%03d %v", i, c), func(t *testing.T) {
				t.Parallel()
				o := m.run(t, fmt.Sprintf("case-%03d", i), c)
				for _, f := range o.failed {
					t.Error(f)
				}
				mu.Lock()
				all = append(all, o)
				mu.Unlock()
			})
		}
	})
	var table bytes.Buffer
	printKills(&table, all)
	t.Logf("seed %d, %d cases\n%s", *killSeed, len(all), &table)
}

// printKills writes a row for each signal and phase.
func printKills(w *bytes.Buffer, all []killOutcome) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "signal\tphase\tcases\tfailed\tcame late\tcodes\ttime to end, median\tmost")
	for _, s := range killSignals {
		for _, p := range killPhases {
			codes := map[int]int{}
			var took []time.Duration
			failed, late := 0, 0
			for _, o := range all {
				if o.signal != s || o.phase != p {
					continue
				}
				codes[o.code]++
				took = append(took, o.took)
				if len(o.failed) > 0 {
					failed++
				}
				if o.late {
					late++
				}
			}
			if len(took) == 0 {
				continue
			}
			slices.Sort(took)
			var list []string
			for c, n := range codes {
				list = append(list, fmt.Sprintf("%d x%d", c, n))
			}
			slices.Sort(list)
			round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%v\t%v\n", signalNames[s], p, len(took), failed, late, strings.Join(list, ", "), round(took[len(took)/2]), round(took[len(took)-1]))
		}
	}
	t.Flush()
}
