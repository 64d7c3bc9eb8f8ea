package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trireme/fault"
	"trireme/flight"
	"trireme/parallel"
	"trireme/rendezvous"
)

type doctorJobFlags struct{ json bool }

func newDoctorJob() *cobra.Command {
	f := &doctorJobFlags{}
	c := &cobra.Command{
		Use:   "job DIR",
		Short: "show what each rank of a run does, and for whom all wait",
		Long: `Read the states that the ranks of a run keep in DIR/logs, and say which rank did not reach which
collective, and why. DIR is the run's output_dir. It works while the run is in progress, after a rank was
killed and after the end, on every host that has the directory; rank 0's has the states of all ranks.

The exit code is 3 if the run cannot continue.`,
		Example: `  trireme doctor job runs/llama-1
  trireme doctor job runs/llama-1 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object with the last operations of each rank")
	return c
}

// jobReport is the report of doctor job.
type jobReport struct {
	Schema        string      `json:"schema"`
	Dir           string      `json:"dir"`
	Verdict       string      `json:"verdict"` // progress, late, hung, deadlock, stuck, lost, ended
	Text          string      `json:"text"`
	Rank          int         `json:"rank"` // all wait for it; -1: none
	Late          []int       `json:"late_ranks,omitempty"`
	Collective    string      `json:"collective,omitempty"`
	WaitedSeconds float64     `json:"waited_seconds,omitempty"`
	Ranks         []rankState `json:"ranks"`
	ends          bool
}

// rankState is the state of one rank. Seconds are before the state was recorded.
type rankState struct {
	Rank            int           `json:"rank"`
	Host            string        `json:"host,omitempty"`
	PID             int           `json:"pid,omitempty"`
	State           string        `json:"state"` // running, stopped, dead, silent, ended, unknown
	Code            *int          `json:"exit_code,omitempty"`
	Step            int64         `json:"step,omitempty"`
	Activity        string        `json:"activity,omitempty"`
	ProgressSeconds float64       `json:"progress_seconds"` // since the last progress
	Recorded        *time.Time    `json:"recorded,omitempty"`
	Ops             []recordedJob `json:"operations,omitempty"`
}

// recordedJob is an operation in a rank's ring.
type recordedJob struct {
	Group    string     `json:"group,omitempty"`
	Seq      uint64     `json:"seq"`
	Kind     string     `json:"kind"`
	DType    string     `json:"dtype,omitempty"`
	Count    int64      `json:"count,omitempty"`
	Unit     string     `json:"unit,omitempty"`
	Peer     *int       `json:"peer,omitempty"`
	Running  bool       `json:"running"`
	Began    time.Time  `json:"began"`
	Finished *time.Time `json:"finished,omitempty"`
}

func (f *doctorJobFlags) run(c *cobra.Command, dir string) error {
	states, err := readStates(filepath.Join(dir, "logs"))
	if err != nil {
		return err
	}
	r := examineJob(states, time.Now())
	r.Dir = dir
	if f.json {
		err = writeJSON(c.OutOrStdout(), r)
	} else {
		err = r.print(c.OutOrStdout())
	}
	if err == nil && r.ends {
		return &Exit{Code: CodeNo}
	}
	return err
}

// readStates returns the newest state of each rank of the last start of a job.
func readStates(logs string) ([]*flight.State, error) {
	paths, err := filepath.Glob(filepath.Join(logs, "rank-*.state"))
	if err == nil && len(paths) == 0 {
		err = &Exit{CodeUsage, fault.Try(fmt.Errorf("%s has no states of ranks (rank-0000.state)", logs), "the output_dir of a run with several ranks")}
	}
	if err != nil {
		return nil, err
	}
	var all []*flight.State
	var last *flight.State // of the newest start
	var failed error
	for _, p := range paths {
		s, err := flight.ReadFile(p)
		if err != nil {
			failed = err
			continue
		}
		all = append(all, s)
		if last == nil || s.Run == last.Run && s.Restart > last.Restart || s.Run != last.Run && s.Started.After(last.Started) {
			last = s
		}
	}
	if last == nil {
		return nil, &Exit{CodeFailed, failed}
	}
	states := make([]*flight.State, last.Size)
	for _, s := range all {
		if s.Run == last.Run && s.Restart == last.Restart && s.Size == last.Size && (states[s.Rank] == nil || s.Alive.After(states[s.Rank].Alive)) {
			states[s.Rank] = s
		}
	}
	return states, nil
}

// silentAfter is the age of a state after which its rank no longer records: it beats ten times a second.
const silentAfter = 3 * time.Second

// examineJob judges the states of all ranks; nil is unknown.
func examineJob(states []*flight.State, now time.Time) *jobReport {
	host, _ := os.Hostname()
	ranks := make([]flight.Rank, len(states))
	r := &jobReport{Schema: "trireme.doctor.job/1"}
	ended, lost := 0, -1
	for i, s := range states {
		ranks[i].State = s
		k := rankState{Rank: i, State: "unknown"}
		if s != nil {
			k = describeState(s)
			k.State, ranks[i].Gone = liveness(s, host, now)
		}
		switch {
		case k.State == "ended":
			ended++
		case ranks[i].Gone != "" && lost < 0:
			lost = i
		}
		r.Ranks = append(r.Ranks, k)
	}
	p := flight.Diagnose(ranks, parallel.Default().CollectiveTimeout())
	r.Verdict, r.Text, r.Rank, r.Late, r.Collective, r.WaitedSeconds, r.ends = p.Verdict.String(), p.Text, p.Rank, p.Ranks, p.Op, p.Waited.Seconds(), p.Verdict.Ends()
	switch {
	case ended > 0 && ended+count(ranks, func(k flight.Rank) bool { return k.State == nil }) == len(ranks):
		r.Verdict, r.Text, r.Rank, r.ends = "ended", "all ranks have ended", -1, false
	case !p.Verdict.Ends() && lost >= 0:
		r.Verdict, r.Rank, r.ends = flight.Lost.String(), lost, true
		r.Text = fmt.Sprintf("%s %s; %s", states[lost].Name(), ranks[lost].Gone, states[lost].LastSeen())
	case p.Text == "" && ended > 0:
		r.Text = fmt.Sprintf("%d of %d ranks have ended", ended, len(ranks))
	case p.Text == "":
		r.Text = "all ranks make progress"
	}
	return r
}

func count(ranks []flight.Rank, is func(flight.Rank) bool) (n int) {
	for _, k := range ranks {
		if is(k) {
			n++
		}
	}
	return n
}

// liveness returns the state of a rank's process, and why it no longer runs.
func liveness(s *flight.State, host string, now time.Time) (state, gone string) {
	age := now.Sub(s.Alive)
	switch {
	case s.Ended:
		return "ended", fmt.Sprintf("has ended with code %d", s.Code)
	case s.Host == host:
		if text, _, stopped := rendezvous.Stopped(s.PID); stopped {
			return "stopped", text
		}
		if err := syscall.Kill(s.PID, 0); errors.Is(err, syscall.ESRCH) {
			return "dead", fmt.Sprintf("is dead: its process ended %s ago", shortDuration(age))
		}
	}
	if age >= silentAfter {
		return "silent", fmt.Sprintf("has recorded nothing for %s", shortDuration(age))
	}
	return "running", ""
}

func describeState(s *flight.State) rankState {
	k := rankState{Rank: s.Rank, Host: s.Host, PID: s.PID, Step: s.Step, Activity: s.Activity(), ProgressSeconds: s.Alive.Sub(s.Progress).Seconds(), Recorded: &s.Alive}
	if s.Ended {
		k.Code = &s.Code
	}
	for i := range s.Ops {
		o := &s.Ops[i]
		op := recordedJob{Seq: o.Seq, Kind: o.Kind, DType: o.DType, Count: o.Count, Unit: o.Tag, Running: o.Running, Began: o.Start}
		if o.Group >= 0 {
			op.Group = s.Groups[o.Group].Name
		}
		if o.Peer >= 0 {
			op.Peer = &o.Peer
		}
		if !o.Running {
			op.Finished = &o.End
		}
		k.Ops = append(k.Ops, op)
	}
	return k
}

// print writes the report as text: the sentence, then the ranks, alike ones in one line.
func (r *jobReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Text)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rank\thost\tpid\tstate\tstep\tactivity")
	sort.SliceStable(r.Ranks, func(i, k int) bool { return r.Ranks[i].Rank == r.Rank && r.Ranks[k].Rank != r.Rank })
	for _, k := range r.Ranks {
		state := k.State
		if k.Code != nil {
			state = fmt.Sprintf("ended (%d)", *k.Code)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%d\t%s\n", k.Rank, k.Host, k.PID, state, k.Step, k.Activity)
	}
	t.Flush()
	_, err := io.WriteString(w, b.String())
	return err
}
