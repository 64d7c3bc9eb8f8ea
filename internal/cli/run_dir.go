package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"trireme/checkpoint"
	"trireme/internal/rundir"
)

// runsDir is where runs without an output_dir have their directories.
const runsDir = "runs"

// runMark begins the first line of a run's config.yaml; the run's identity follows.
const runMark = "# run "

// Variables for workers of this program's launcher: which run they are of, and, for rank 0, the
// descriptors of the locks that the launcher holds.
const (
	runVar            = "TRIREME_RUN"
	lockVar           = "TRIREME_LOCK_FD"
	checkpointLockVar = "TRIREME_CHECKPOINT_LOCK_FD"
)

// runID is a run: its directory and its identity.
type runID struct {
	Dir string `json:"dir"`
	ID  string `json:"id"` // empty: none is known
}

// notInNames is what a name of a run does not have.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// defaultName is the name of a run that is given none.
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

// findRun finds the job's run, as far as it is known before the job begins: the launcher passes it to
// its workers, and --resume auto without output_dir continues the newest run of the name. It refuses a
// new run in a directory that holds another. All ranks of another launcher get the same answer, because
// nothing is written before all have joined; only rank 0 looks at the lock, since it may hold it.
func (j *job) findRun(launched bool) error {
	if text, ok := os.LookupEnv(runVar); ok {
		if err := json.Unmarshal([]byte(text), &j.run); err != nil {
			return fmt.Errorf("%s: %w", runVar, err)
		}
		return j.setRun(j.run)
	}
	dir := j.cfg.OutputDir
	if dir == "" && j.cfg.Resume == "auto" {
		var err error
		if dir, err = rundir.Newest(runsDir, j.cfg.Name); err != nil {
			return outputError(err)
		}
	}
	if dir == "" {
		return j.setRun(runID{})
	}
	for _, at := range append(j.adjacentDirs(dir), dir, j.cfg.Checkpoint.Dir) {
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

// settle makes a run's directory the job's.
func (j *job) setRun(r runID) error {
	j.run, j.cfg.OutputDir = r, r.Dir
	return j.print()
}

// vacant refuses a new run in a directory that holds another.
func (j *job) checkVacant(dir string) error {
	if j.cfg.Resume == "auto" || j.cfg.MoveAside {
		return nil
	}
	if rundir.ExistingRun(dir) != "" {
		return occupiedError(dir, describeRun(dir), "--output_dir DIR, or none for a new runs/"+j.cfg.Name+"-N")
	}
	if at := j.cfg.Checkpoint.Dir; at != "" && checkpoint.Exists(at) {
		return occupiedError(at, "it holds checkpoints", "another checkpoint.dir")
	}
	return nil
}

// occupied is the error of a new run where another is.
func occupiedError(dir, holds, elsewhere string) error {
	dir = filepath.Clean(dir)
	return usage(fmt.Sprintf("%s belongs to another run (%s), and a new run would mix with it", dir, holds),
		fmt.Sprintf("--resume auto to go on with that run, or %s, or --move_aside, which renames %s to %s.1 and begins anew", elsewhere, dir, dir))
}

// describeRun says what is known of the run in a directory.
func describeRun(dir string) string {
	c, err := readCard(dir)
	if err != nil || c.ID == "" {
		return "it has " + rundir.ExistingRun(dir)
	}
	text := fmt.Sprintf("run %s, started %s", c.ID, c.Started.Local().Format("2006-01-02 15:04"))
	if c.Exit != nil {
		text += fmt.Sprintf(", ended with code %d", *c.Exit)
	}
	return text
}

// identity is which run a directory is of: the one that it holds, where the job goes on with that,
// and else a new one.
func (j *job) identity(dir string) (string, error) {
	if j.cfg.Resume != "auto" {
		return rundir.NewID(), nil
	}
	if c, err := readCard(dir); err == nil && c.ID != "" {
		return c.ID, nil
	}
	if id := configRunID(filepath.Join(dir, rundir.Config)); id != "" {
		return id, nil
	}
	if j.cfg.Checkpoint.Dir != "" { // it may hold another's
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

// readCard reads a directory's run.json.
func readCard(dir string) (c card, err error) {
	path := filepath.Join(dir, rundir.Identity)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return c, fs.ErrNotExist
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if !rundir.ValidID(c.ID) {
		c.ID = ""
	}
	return c, err
}

// markedRun is the identity in the first line of a config.yaml; empty if there is none.
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

// join gives every rank the run of rank 0, which alone decides about the directory if another launcher
// starts the ranks.
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
		return fmt.Errorf("rank 0 sent what cannot be read: %w", err)
	}
	if ranks.Rank() > 0 && j.origins["output_dir"] != "default" {
		first.Dir = j.run.Dir // another machine may know the same directory by another path
	}
	return j.setRun(first)
}
