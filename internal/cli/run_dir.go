package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"trireme/checkpoint"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
)

// runsDir is the parent directory of runs without output_dir.
const runsDir = "runs"

// runMark starts the first line of config.yaml, followed by the run's ID.
const runMark = "# run "

// Variables for workers: the run, and for rank 0 the descriptors of the launcher's locks.
const (
	runVar            = "TRIREME_RUN"
	lockVar           = "TRIREME_LOCK_FD"
	checkpointLockVar = "TRIREME_CHECKPOINT_LOCK_FD"
	tierLockVar       = "TRIREME_TIER_LOCK_FD"
)

type runID struct {
	Dir string `json:"dir"`
	ID  string `json:"id"` // empty: unknown
}

// notInNames matches characters that a run name cannot have.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// defaultName returns the name of a run without name.
func (f *trainFlags) defaultName(j *job) string {
	from := "run"
	switch {
	case j.recipe != nil:
		from = j.recipe.RunName
	case f.config != "" && !strings.HasPrefix(f.config, "/dev/") && !strings.HasPrefix(f.config, "/proc/"):
		from = strings.TrimSuffix(filepath.Base(f.config), filepath.Ext(f.config))
	case j.cfg.Model.Path != "":
		from, _, _ = strings.Cut(filepath.Base(j.cfg.Model.Path), "@")
	}
	if from = strings.Trim(notInNames.ReplaceAllString(from, "-"), "-._"); from == "" {
		return "run"
	}
	return from[:min(len(from), 100)]
}

// findRun finds the job's run as far as it is known before the start. Workers get it from the launcher;
// --resume auto without output_dir continues the newest run of the name. It refuses a new run in a
// directory that contains another. Ranks of another launcher agree, because nothing is written before
// all have joined; they skip the lock, which rank 0 may hold.
func (j *job) findRun(launched bool) error {
	if text, ok := os.LookupEnv(runVar); ok {
		if err := json.Unmarshal([]byte(text), &j.run); err != nil {
			return fmt.Errorf("%s: %w", runVar, err)
		}
		return j.setRun(j.run)
	}
	dir := j.cfg.OutputDir
	if dir == "" && j.continues() {
		var err error
		if dir, err = rundir.Newest(runsDir, j.cfg.Name); err != nil {
			return outputError(err)
		}
		if j.restart.count > 0 {
			dir = j.restart.find(dir)
		}
	}
	if dir == "" {
		return j.setRun(runID{})
	}
	for _, at := range append(j.adjacentDirs(dir), dir, j.lockedSaves(), j.lockedTier(dir)) {
		if !launched && at != "" {
			if err := rundir.CheckFree(at); err != nil {
				return busyError(err)
			}
		}
	}
	if err := j.checkVacant(dir); err != nil {
		return err
	}
	return j.setRun(runID{Dir: dir})
}

func (j *job) setRun(r runID) error {
	j.run, j.cfg.OutputDir = r, r.Dir
	return j.print()
}

// checkVacant refuses a new run in a directory that contains another, and one that would replace somebody's config.yaml.
func (j *job) checkVacant(dir string) error {
	if path := filepath.Join(dir, rundir.Config); exists(path) && configRunID(path) == "" && rundir.ExistingRun(dir) == "" {
		return usage(path+" was not written by a run, and this run would replace it", "another --output_dir, or another name for the file")
	}
	if j.continues() {
		return nil
	}
	if at := j.cfg.Checkpoint.Disk().Dir; objectstore.IsURL(at) {
		if err := checkNoCheckpoints(at, "--resume auto to continue that run, or another checkpoint.dir"); err != nil {
			return err
		}
	}
	// A run whose output directory is lost continues from its last tier, and there.
	if t, ok := j.cfg.Checkpoint.Remote(); ok && !strings.HasPrefix(objectstore.Clean(j.cfg.Resume)+"/", objectstore.Clean(t.Dir)+"/") {
		if err := checkNoCheckpoints(t.Dir, "--resume "+t.Dir+" to continue that run, or another directory of the last of checkpoint.tiers"); err != nil {
			return err
		}
	}
	if j.cfg.MoveAside {
		return nil
	}
	if rundir.ExistingRun(dir) != "" {
		elsewhere := "--output_dir DIR, or without the flag"
		if where := j.origins["output_dir"]; where != "--output_dir" {
			elsewhere = "--output_dir DIR, or --set output_dir= (it is set by " + where + ")"
		}
		return occupiedError(dir, describeRun(dir), elsewhere+" for a new runs/"+j.cfg.Name+"-N")
	}
	if at := j.cfg.Checkpoint.Disk().Dir; at != "" && checkpoint.Exists(at) {
		return occupiedError(at, "it contains checkpoints", "another checkpoint.dir")
	}
	return nil
}

// checkNoCheckpoints refuses a new run with checkpoints in a directory that is not moved aside, as of an object store,
// which has no renaming, and one with a store that does not answer.
func checkNoCheckpoints(dir, try string) error {
	if _, err := checkpoint.Names(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Exit{CodeUsage, err}
	}
	if checkpoint.Exists(dir) {
		return usage(dir+" has checkpoints of another run", try)
	}
	return nil
}

// occupiedError is the error of a new run in the directory of another.
func occupiedError(dir, holds, elsewhere string) error {
	dir = filepath.Clean(dir)
	return usage(fmt.Sprintf("%s belongs to another run (%s)", dir, holds),
		fmt.Sprintf("--resume auto to continue that run, or %s, or --move_aside to rename %s to %s.1 and start a new run", elsewhere, dir, dir))
}

// describeRun describes the run in a directory.
func describeRun(dir string) string {
	c, err := rundir.ReadCard(dir)
	if err != nil || c.ID == "" {
		return "it has " + rundir.ExistingRun(dir)
	}
	text := fmt.Sprintf("run %s, started %s", c.ID, c.Started.Local().Format("2006-01-02 15:04"))
	if c.Exit != nil {
		text += fmt.Sprintf(", ended with code %d", *c.Exit)
	}
	return text
}

// identity returns the ID of the run in a directory if the job continues it, else a new ID.
func (j *job) identity(dir string) (string, error) {
	if !j.continues() {
		return rundir.NewID(), nil
	}
	if c, err := rundir.ReadCard(dir); err == nil && c.ID != "" {
		return c.ID, nil
	}
	if id := configRunID(filepath.Join(dir, rundir.Config)); id != "" {
		return id, nil
	}
	if j.cfg.Checkpoint.Disk().Dir != "" { // it may contain another run's checkpoints
		return rundir.NewID(), nil
	}
	at := j.cfg.Checkpoint.Directory(dir)
	runs, err := checkpoint.RunIDs(at)
	switch {
	case err != nil:
		return "", outputError(err)
	case len(runs) > 1:
		return "", usage(fmt.Sprintf("%s holds checkpoints of %d runs (%s), and neither %s nor %s says which of them the directory is of", at, len(runs), strings.Join(runs, ", "), rundir.Identity, rundir.Config),
			"--output_dir DIR --resume CHECKPOINT, which begins a run of its own from the checkpoint that you choose")
	case len(runs) == 1:
		return runs[0], nil
	}
	return rundir.NewID(), nil
}

// configRunID returns the run ID in the first line of config.yaml, or "".
func configRunID(path string) string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	id, ok := strings.CutPrefix(line, runMark)
	if id = strings.TrimSpace(id); !ok || !rundir.ValidID(id) {
		return ""
	}
	return id
}

// shareRun sets the run of rank 0 on every rank: under another launcher only rank 0 chooses the
// directory.
func (j *job) shareRun(ctx context.Context, ranks checkpoint.ProcessGroup) error {
	b, err := json.Marshal(j.run)
	if err != nil {
		return err
	}
	all, err := ranks.AllGatherBytes(ctx, b)
	if err != nil {
		return err
	}
	var first runID
	if err := json.Unmarshal(all[0], &first); err != nil {
		return fmt.Errorf("cannot decode the run of rank 0: %w", err)
	}
	if ranks.Rank() > 0 && j.origins["output_dir"] != "default" {
		first.Dir = j.run.Dir // the path may differ between machines
	}
	return j.setRun(first)
}
