package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/internal/conf"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
	"trireme/monitor"
)

type pruneFlags struct {
	last, every int
	younger     time.Duration
	size        string
	yes, json   bool
}

// pruned is the decision about a checkpoint.
type pruned struct {
	Path  string `json:"path"`
	Step  int    `json:"step"`
	Bytes int64  `json:"bytes"`
	Best  bool   `json:"best"`
	Keep  bool   `json:"keep"`
}

func newCheckpointPrune() *cobra.Command {
	f := &pruneFlags{}
	c := &cobra.Command{
		Use:   "prune DIR",
		Short: "delete checkpoints of a run that no rule keeps; without --yes only list them",
		Long: `Delete the checkpoints of a run that none of --keep_last, --keep_every and --keep_younger keeps, then the
oldest while the rest has more than --max_size. Without --yes it only lists them.

The newest good checkpoint and the best one are always kept: the tensors of the newest are read first,
and if they are damaged, the one before is the newest. Damaged and incomplete checkpoints and
those of other runs are neither deleted nor counted, and the best one does not count for --keep_last.
A running run is refused.`,
		Example: `  trireme checkpoint prune runs/sft-1 --keep_last 2 --keep_every 1000
  trireme checkpoint prune runs/sft-1 --keep_younger 24h --max_size 100GB --yes`,
		Args: oneDirectory,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	p := c.Flags()
	p.IntVar(&f.last, "keep_last", 0, "keep the newest `N`")
	p.IntVar(&f.every, "keep_every", 0, "keep those whose step is a multiple of `N`")
	p.DurationVar(&f.younger, "keep_younger", 0, "keep those of an age of up to `DURATION`, such as 24h")
	p.StringVar(&f.size, "max_size", "", "delete the oldest while the rest has more than `SIZE`, such as 100GB")
	p.BoolVar(&f.yes, "yes", false, "delete them")
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *pruneFlags) rules() (r checkpoint.Retention, err error) {
	r = checkpoint.Retention{Last: f.last, Every: f.every, Younger: f.younger}
	if f.size != "" {
		size, err := conf.ParseBytes(f.size)
		if err != nil {
			return r, &Exit{CodeUsage, fmt.Errorf("--max_size: %w", err)}
		}
		if r.Bytes = int64(size); r.Bytes == 0 {
			return r, usage("--max_size is 0", "--keep_last 1 for the newest only")
		}
	}
	for name, v := range map[string]int64{"keep_last": int64(f.last), "keep_every": int64(f.every), "keep_younger": int64(f.younger)} {
		if v < 0 {
			return r, usage("--"+name+" is negative", "a positive value, or leave it out")
		}
	}
	if r == (checkpoint.Retention{}) {
		return r, usage("prune needs a rule", "--keep_last 2, --keep_every 1000, --keep_younger 24h or --max_size 100GB")
	}
	return r, nil
}

func (f *pruneFlags) run(c *cobra.Command, name string) (err error) {
	rules, err := f.rules()
	if err != nil {
		return err
	}
	if checkpoint.Is(name) {
		return usage(name+" is one checkpoint", "the directory of its run")
	}
	s, err := readSaved(name)
	if err != nil {
		return err
	}
	if len(s.rows) == 0 {
		return usage(name+" has no checkpoints", "trireme checkpoint ls")
	}
	if f.yes {
		release, busy := s.lock()
		if busy != nil {
			return busy
		}
		defer func() { err = errors.Join(err, release()) }()
		if s, err = readSaved(name); err != nil { // under the lock
			return err
		}
	}
	plan, err := s.prune(c.Context(), rules, c.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.yes {
		for _, p := range plan {
			if !p.Keep {
				if err := checkpoint.Remove(s.dir, p.Path); err != nil {
					return err
				}
			}
		}
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), struct {
			Schema      string   `json:"schema"`
			Deleted     bool     `json:"deleted"`
			Checkpoints []pruned `json:"checkpoints"`
		}{"trireme.checkpoint.prune/1", f.yes, plan})
	}
	return printPruned(c.OutOrStdout(), plan, f.yes)
}

// lock locks the directory of the run and that of its checkpoints.
func (s *savedRun) lock() (release func() error, err error) {
	var locks []*rundir.Lock
	release = func() error {
		var errs []error
		for _, l := range locks {
			errs = append(errs, l.Release())
		}
		return errors.Join(errs...)
	}
	dirs := []string{s.dir}
	switch {
	case objectstore.IsURL(s.dir): // an object store has no locks
		dirs = dirs[:0]
		if s.owner != "" {
			dirs = append(dirs, s.owner)
		}
	case s.owner != "" && rundir.IsInside(s.dir, s.owner):
		dirs = []string{s.owner}
	case s.owner != "":
		dirs = append(dirs, s.owner)
	}
	for _, dir := range dirs {
		l, err := rundir.Acquire(dir)
		if err != nil {
			return nil, errors.Join(stillRuns(err), release())
		}
		locks = append(locks, l)
	}
	return release, nil
}

// prune decides about the valid checkpoints of the run, newest first.
func (s *savedRun) prune(ctx context.Context, rules checkpoint.Retention, notes io.Writer) ([]pruned, error) {
	rows := slices.DeleteFunc(slices.Clone(s.rows), func(r checkpointRow) bool {
		return r.Error != "" || s.id != "" && r.Run != "" && r.Run != s.id
	})
	for len(rows) > 0 { // the newest must be good, not only complete
		v, err := verifyOne(ctx, checkpoint.Candidate{Path: rows[0].Path})
		if err != nil {
			return nil, err
		}
		if v.OK {
			break
		}
		fmt.Fprintf(notes, "%s is damaged and neither counted nor deleted\n", rows[0].Path)
		rows = rows[1:]
	}
	all := make([]checkpoint.Saved, len(rows))
	for i, r := range rows {
		all[i] = checkpoint.Saved{Step: r.Step, Bytes: r.Bytes, Protected: r.Best}
		if r.Saved != nil {
			all[i].Age = time.Since(*r.Saved)
		}
	}
	plan := []pruned{}
	for i, keep := range rules.Keep(all) {
		plan = append(plan, pruned{rows[i].Path, rows[i].Step, rows[i].Bytes, rows[i].Best, keep})
	}
	return plan, nil
}

func printPruned(w io.Writer, plan []pruned, deleted bool) error {
	verb := "would delete"
	if deleted {
		verb = "deleted"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	n, size := int64(0), int64(0)
	for _, p := range plan {
		action := "keep"
		if p.Best {
			action = "keep (best)"
		}
		if !p.Keep {
			action = verb
			n, size = n+1, size+p.Bytes
		}
		fmt.Fprintln(t, escapeCells([]string{action, p.Path, monitor.Bytes(p.Bytes)}))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("%s %d of %s, %s", verb, n, number(int64(len(plan)), "checkpoint"), monitor.Bytes(size))
	if !deleted && n > 0 {
		text += ". to delete them: --yes"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
