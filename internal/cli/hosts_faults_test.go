//go:build linux

package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	hostFaults = flag.Int("hostfaults", 4, "random faults of TestHostFaults; from 8 on each kind occurs")
	hostSeed   = flag.Uint64("hostseed", 1, "seed of TestHostFaults")
)

// hostFault is a fault of a host, while a job on four hosts trains. The job may go on with two.
type hostFault struct {
	kind string
	host int
	step int // at which it occurs
	back bool
}

// The kinds of faults.
var hostFaultKinds = []string{
	"worker killed", "worker stopped", "host cut off for a moment", "launcher terminated",
	"host slow", "launcher killed", "first launcher killed", "host cut off",
}

func (f hostFault) String() string {
	back := ""
	if f.back {
		back = ", returns"
	}
	return fmt.Sprintf("%s: node%d, step %d%s", f.kind, f.host, f.step, back)
}

// hostOutcome is how a job ended after a fault.
type hostOutcome struct {
	hostFault
	ended string // the codes of the launchers
	took  time.Duration
	bad   bool
}

// TestHostFaults: a job on four hosts, with three copies of the launchers' store, survives a fault of one of
// them and has the records and weights of one rank.
func TestHostFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	h := newHosts(t, 4)
	r := rand.New(rand.NewPCG(*hostSeed, 0))
	var all []hostOutcome
	for i := range *hostFaults {
		f := hostFault{kind: hostFaultKinds[i%len(hostFaultKinds)], host: r.IntN(4), step: 5 + r.IntN(150), back: r.IntN(2) == 0}
		if f.kind == "first launcher killed" {
			f.host = 0
		}
		t.Run(fmt.Sprintf("%03d %v", i, f), func(t *testing.T) {
			j := h.newJob(t, fmt.Sprintf("fault-%03d", i), "--nnodes", "2:4", "--rdzv_endpoint", "node0:29400,node1:29400,node2:29400",
				"--rdzv_conf", "last_call_timeout=2,join_timeout=40,read_timeout=15", "--max_restarts", "3")
			o := f.run(j)
			o.bad = t.Failed()
			all = append(all, o)
			j.kill()
		})
	}
	var table bytes.Buffer
	printHostFaults(&table, all)
	t.Logf("seed %d, %d faults\n%s", *hostSeed, len(all), &table)
}

// run runs a job with the fault.
func (f hostFault) run(j *hostJob) hostOutcome {
	t := j.t
	for i := range 4 {
		j.start(i, 1)
	}
	j.await(f.step)
	l := j.launchers[f.host]
	worker := l.worker()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := map[int]bool{0: true, 1: true, 2: true, 3: true} // hosts whose launchers end with 0
	began := time.Now()
	var hurt []int // hosts whose launchers end otherwise
	switch f.kind {
	case "worker killed":
		syscall.Kill(worker, syscall.SIGKILL)
	case "worker stopped":
		syscall.Kill(worker, syscall.SIGSTOP)
	case "launcher killed", "first launcher killed":
		must(l.cmd.Process.Kill())
		hurt = append(hurt, f.host)
		if f.back {
			<-l.done
			time.Sleep(500 * time.Millisecond)
			j.start(f.host, 1)
		}
	case "host cut off":
		must(l.host.Cut())
		defer l.host.Restore()
		hurt = append(hurt, f.host)
		if f.back {
			time.Sleep(3 * time.Second)
			must(l.host.Restore())
			hurt = nil
		}
	case "host cut off for a moment":
		must(l.host.Cut())
		time.Sleep(300 * time.Millisecond)
		must(l.host.Restore())
	case "host slow":
		must(l.host.Limit(2_000_000))
		time.Sleep(3 * time.Second)
		must(l.host.Limit(0))
	case "launcher terminated": // stops the job with a checkpoint; the same commands continue it
		must(l.cmd.Process.Signal(syscall.SIGTERM))
		j.wait(j.launchers...)
		for _, l := range j.launchers {
			if l.code != 75 && (l.code != 0 || j.steps() < 240) {
				t.Errorf("%s: code %d, not 75\n%s", l.host.Name, l.code, l.text())
			}
		}
		j.launchers = nil
		j.set = []string{"--resume", "auto"}
		for i := range 4 {
			j.start(i, 1)
		}
	}
	for _, i := range hurt {
		delete(expect, i)
	}
	j.wait(j.launchers...)
	o := hostOutcome{hostFault: f, took: time.Since(began)}
	var codes []string
	for i, l := range j.launchers {
		codes = append(codes, fmt.Sprint(l.code))
		if (i >= 4 || expect[i]) && l.code != 0 {
			t.Errorf("%s: code %d\n%s", l.host.Name, l.code, j.outputs())
		}
		for pid := range l.workers {
			if alive(pid) {
				t.Errorf("%s: worker %d is left", l.host.Name, pid)
			}
		}
	}
	o.ended = strings.Join(codes, " ")
	if !t.Failed() {
		j.same()
	}
	if testing.Verbose() {
		t.Log(j.outputs())
	}
	return o
}

// printHostFaults writes a row for each kind.
func printHostFaults(w *bytes.Buffer, all []hostOutcome) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tcases\tfailed\tcodes of the launchers\ttime to the end, median\tmost")
	for _, kind := range hostFaultKinds {
		var took []time.Duration
		failed, codes := 0, map[string]int{}
		for _, o := range all {
			if o.kind != kind {
				continue
			}
			took = append(took, o.took)
			codes[o.ended]++
			if o.bad {
				failed++
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		var list []string
		for c, n := range codes {
			list = append(list, fmt.Sprintf("%s (%d)", c, n))
		}
		slices.Sort(list)
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%v\t%v\n", kind, len(took), failed, strings.Join(list, ", "), took[len(took)/2].Round(10*time.Millisecond), took[len(took)-1].Round(10*time.Millisecond))
	}
	t.Flush()
}
