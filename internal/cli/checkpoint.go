package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/internal/conf"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
	"trireme/monitor"
	"trireme/train"
)

func newCheckpoint() *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoint",
		Short: "list, show, verify, compare, prune and export checkpoints",
		Example: `  trireme checkpoint ls runs/sft-1
  trireme checkpoint show runs/sft-1/checkpoints/step-200
  trireme checkpoint verify runs/sft-1
  trireme checkpoint diff runs/sft-1/checkpoints/step-100 runs/sft-1/checkpoints/step-200
  trireme checkpoint prune runs/sft-1 --keep_last 2
  trireme checkpoint export runs/sft-1/checkpoints/step-200 --output DIR --dtype bfloat16`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(newCheckpointLs(), newCheckpointShow(), newCheckpointVerify(), newCheckpointDiff(), newCheckpointPrune(), newCheckpointExport())
	return c
}

// checkDir refuses an argument that is not a directory.
func checkDir(dir string) error {
	if objectstore.IsURL(dir) {
		if _, err := checkpoint.Names(dir); errors.Is(err, fs.ErrNotExist) {
			return usage(dir+" has no objects", "a checkpoint, or a directory of checkpoints")
		} else if err != nil {
			return &Exit{CodeUsage, err}
		}
		return nil
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return usage(dir+" is not a directory", "a checkpoint, or the directory of a run")
	}
	return nil
}

// oneCheckpoint returns the checkpoint at a path: the directory itself, or the newest of a run, which it prints.
func oneCheckpoint(name string, stderr io.Writer) (string, error) {
	if err := checkDir(name); err != nil {
		return "", err
	}
	if checkpoint.Is(name) {
		return name, nil
	}
	dir, _ := checkpointsIn(name)
	path, notices, err := checkpoint.Latest(dir, "")
	if err != nil {
		return "", &Exit{CodeUsage, err}
	}
	if path == "" {
		return "", usage(name+" is not a checkpoint and contains none", "trireme checkpoint ls")
	}
	for _, n := range notices {
		fmt.Fprintln(stderr, n)
	}
	_, err = fmt.Fprintf(stderr, "using %s\n", path)
	return path, err
}

// openCheckpoint opens the checkpoint that oneCheckpoint finds.
func openCheckpoint(name string, stderr io.Writer) (path string, c *checkpoint.Checkpoint, err error) {
	if path, err = oneCheckpoint(name, stderr); err != nil {
		return "", nil, err
	}
	if c, err = checkpoint.Open(path); err != nil {
		return "", nil, &Exit{CodeUsage, err}
	}
	return path, c, nil
}

// checkpointRow is a checkpoint in a list.
type checkpointRow struct {
	Path      string     `json:"path"`
	Step      int        `json:"step"`
	Run       string     `json:"run"`
	Saved     *time.Time `json:"saved"`
	Bytes     int64      `json:"bytes"` // of the data files
	WorldSize int        `json:"world_size"`
	Strategy  string     `json:"strategy"`
	Format    int        `json:"format"`
	Layout    string     `json:"layout"`
	Tensors   int        `json:"tensors"`
	Digest    string     `json:"digest"` // SHA-256 of the manifest
	EvalLoss  *float64   `json:"eval_loss"`
	Best      bool       `json:"best"`  // of the evaluations of the run
	Error     string     `json:"error"` // why it is not valid; "" if it is
}

// savedRun is the checkpoints in one directory, newest first, with the evaluations of their run.
type savedRun struct {
	dir   string // with the directories step-N
	owner string // the run's directory; "" if unknown
	id    string // of the run; "" if unknown
	rows  []checkpointRow
}

// readSaved lists the checkpoints of a run, or in a directory.
func readSaved(name string) (*savedRun, error) {
	if err := checkDir(name); err != nil {
		return nil, err
	}
	s := &savedRun{}
	dir, isRun := checkpointsIn(name)
	s.dir = dir
	if up := objectstore.Dir(objectstore.Clean(dir)); isRun {
		s.owner = name
	} else if exists(filepath.Join(up, rundir.Identity)) {
		s.owner = up
	}
	found, err := checkpoint.List(dir)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	best := map[int]bool{}
	for _, f := range found {
		row := checkpointRow{Path: f.Path, Step: f.Step, Run: f.Run}
		if f.Err != nil {
			row.Error = f.Err.Error()
		} else if step, ok, err := row.describe(); err != nil {
			row.Error = err.Error()
		} else if ok && len(best) == 0 { // of the newest
			best[int(step)] = true
		}
		s.rows = append(s.rows, row)
	}
	return s, s.addEvaluations(best)
}

// describe fills the row from the checkpoint, and returns the step of the best evaluation in its state.
func (r *checkpointRow) describe() (best int64, ok bool, err error) {
	c, err := checkpoint.Open(r.Path)
	if err != nil {
		return 0, false, err
	}
	defer c.Close()
	m := c.Meta()
	r.Step, r.Run, r.WorldSize, r.Strategy, r.Digest, r.Bytes, r.Tensors = m.Step, m.Run, m.WorldSize, m.Strategy, c.Digest(), c.Bytes(), len(c.Tensors())
	r.Format, r.Layout = c.Format()
	if at, err := c.Saved(); err == nil {
		r.Saved = &at
	}
	best, ok = train.BestStep(m.State)
	return best, ok, nil
}

// addEvaluations adds the evaluations of the run to the rows. The best ones are that of the trainer's state and the
// best by the run's metric of those with a checkpoint.
func (s *savedRun) addEvaluations(best map[int]bool) error {
	if s.owner != "" {
		card, err := rundir.ReadCard(s.owner)
		if err == nil {
			s.id = card.ID
		}
		cfg, err := conf.Load(train.Default(), conf.File(filepath.Join(s.owner, rundir.Config)))
		if err == nil && exists(filepath.Join(s.owner, rundir.Metrics)) {
			if err := s.readEvaluations(cfg.Value.Training, best); err != nil {
				return err
			}
		}
	}
	for i := range s.rows {
		s.rows[i].Best = s.rows[i].Error == "" && best[s.rows[i].Step]
	}
	return nil
}

func (s *savedRun) readEvaluations(t train.Training, best map[int]bool) error {
	result, err := readRunResult(s.owner, time.Now())
	if err != nil {
		return err
	}
	var kept []monitor.Evaluation
	for _, e := range result.evals {
		for i, row := range s.rows {
			if row.Error == "" && int64(row.Step) == e.Step {
				s.rows[i].EvalLoss = finite(e.Loss)
				kept = append(kept, e)
			}
		}
	}
	if e, ok := t.Best(kept); ok {
		best[int(e.Step)] = true
	}
	return nil
}
