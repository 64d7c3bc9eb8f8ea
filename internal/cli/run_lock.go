package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"trireme/checkpoint"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
)

// together is the time within which processes of one command may start: without variables of a launcher, each
// takes itself for the whole job.
const together = time.Minute

// busyError is the error of a directory that cannot be locked, usually because another process uses it.
func busyError(err error) error {
	var in *rundir.InUseError
	if !errors.As(err, &in) {
		return &Exit{CodeUsage, err}
	}
	try := "another --output_dir, or wait until it ends"
	if in.Owner.PID > 0 {
		try = fmt.Sprintf("another --output_dir, or stop that run: kill %d (on %s)", in.Owner.PID, in.Owner.Host)
		if time.Since(in.Owner.Since) < together {
			try += ", or start the ranks of one job by --nproc, srun, mpirun or torchrun"
		}
	}
	return &Exit{CodeUsage, &Problem{Text: in.Error(), Try: try, Err: err}}
}

// lockRun locks the output directory, and a checkpoint.dir and a last tier outside it, for this process and rank 0.
// Under the lock it checks that the directory of a new run contains no other.
func (j *job) lockRun(stderr io.Writer) (err error) {
	dir, saves := j.cfg.OutputDir, j.lockedSaves()
	if dir == "" {
		if dir, err = rundir.Make(runsDir, j.cfg.Name); err != nil {
			return &Exit{CodeUsage, outputError(err)}
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.release())
		}
	}()
	if err := j.acquire(lockVar, dir, stderr); err != nil {
		return err
	}
	inside := saves != "" && rundir.IsInside(saves, dir)
	if saves != "" && !inside {
		if err := j.acquire(checkpointLockVar, saves, stderr); err != nil {
			return err
		}
	}
	if err := j.lockTier(dir, stderr); err != nil {
		return err
	}
	for _, at := range j.adjacentDirs(dir) {
		if err := rundir.CheckFree(at); err != nil {
			return busyError(err)
		}
	}
	if j.cfg.MoveAside && !j.continues() {
		if saves != "" && !inside && checkpoint.Exists(saves) {
			err = j.moveAside(checkpointLockVar, saves, stderr)
		}
		if err == nil && (rundir.ExistingRun(dir) != "" || inside && checkpoint.Exists(saves)) {
			err = j.moveAside(lockVar, dir, stderr)
		}
		if err != nil {
			return err
		}
	}
	if err := j.checkVacant(dir); err != nil {
		return err
	}
	id, err := j.identity(dir)
	if err != nil {
		return err
	}
	return j.setRun(runID{Dir: dir, ID: id})
}

// lockedSaves returns checkpoint.dir if it can be locked: an object store has no locks. There, checkpoints of another
// run are refused when the run starts and when it saves.
func (j *job) lockedSaves() string {
	dir := j.cfg.Checkpoint.Disk().Dir
	if objectstore.IsURL(dir) {
		return ""
	}
	return dir
}

// lockedTier returns the last tier if it is a directory outside the output directory.
func (j *job) lockedTier(dir string) string {
	t, ok := j.cfg.Checkpoint.Remote()
	if !ok || objectstore.IsURL(t.Dir) || rundir.IsInside(t.Dir, dir) {
		return ""
	}
	return t.Dir
}

// lockTier locks the last tier. A run that continues does without it if it cannot be reached: it has nearer checkpoints, or
// fails when it looks for some.
func (j *job) lockTier(dir string, stderr io.Writer) error {
	at := j.lockedTier(dir)
	if at == "" {
		return nil
	}
	err := j.acquire(tierLockVar, at, stderr)
	var in *rundir.InUseError
	if err == nil || errors.As(err, &in) || !j.continues() {
		return err
	}
	_, err = fmt.Fprintf(stderr, "warning: %v: its checkpoints are not seen, and nothing is copied to it until it is back\n", err)
	return err
}

// adjacentDirs returns directories whose lock another run may hold for the same checkpoints: the
// parent of checkpoint.dir and of the last tier, or the default checkpoint directory.
func (j *job) adjacentDirs(dir string) (all []string) {
	switch saves := j.lockedSaves(); {
	case j.cfg.Checkpoint.Disk().Dir != "" && saves == "":
	case saves == "":
		all = append(all, j.cfg.Checkpoint.Directory(dir))
	case !rundir.IsInside(saves, dir):
		all = append(all, filepath.Dir(rundir.Resolve(saves)))
	}
	if tier := j.lockedTier(dir); tier != "" {
		all = append(all, filepath.Dir(rundir.Resolve(tier)))
	}
	return all
}

// acquire creates a directory if needed and locks it.
func (j *job) acquire(name, dir string, stderr io.Writer) error {
	key := map[string]string{lockVar: "output_dir", checkpointLockVar: "checkpoint.dir", tierLockVar: "checkpoint.tiers"}[name]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &Exit{CodeUsage, fmt.Errorf("%s: %w", key, err)}
	}
	lock, err := rundir.Acquire(dir)
	if err != nil {
		return busyError(fmt.Errorf("%s: %w", key, err))
	}
	if j.locks == nil {
		j.locks = map[string]*rundir.Lock{}
	}
	j.locks[name] = lock
	if o := lock.Previous; o.PID > 0 && o.Host != hostname() {
		_, err = fmt.Fprintf(stderr, "%s: pid %d on %s wrote here and did not end in order. if it still runs, stop it\n", dir, o.PID, o.Host)
	}
	return err
}

func (j *job) release() error {
	var errs []error
	for _, l := range j.locks {
		errs = append(errs, l.Release())
	}
	j.locks = nil
	return errors.Join(errs...)
}

func hostname() string {
	name, _ := os.Hostname() // for messages alone
	return name
}

// moveAside renames a locked directory that contains another run, and locks an empty one at its path.
func (j *job) moveAside(name, dir string, stderr io.Writer) error {
	if rundir.IsInside(".", dir) {
		return usage("move_aside cannot rename "+dir+": the working directory is in it", "another --output_dir")
	}
	for _, in := range []struct{ key, path string }{
		{"resume", strings.TrimPrefix(j.cfg.Resume, "none")}, {"model.path", j.cfg.Model.Path}, {"model.config", j.cfg.Model.Config},
		{"data.path", j.cfg.Data.Path}, {"data.eval_path", j.cfg.Data.EvalPath}, {"data.tokenizer", j.cfg.Data.Tokenizer},
	} {
		if in.path != "" && rundir.IsInside(in.path, dir) {
			return usage(fmt.Sprintf("move_aside cannot rename %s: %s uses %s in it", dir, in.key, in.path), "another --output_dir")
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return outputError(err)
	}
	to, err := rundir.MoveAside(real)
	if err != nil {
		return &Exit{CodeUsage, fmt.Errorf("move_aside: %w", err)}
	}
	if _, err := fmt.Fprintf(stderr, "%s contained another run: renamed to %s\n", dir, to); err != nil {
		return err
	}
	if err := j.locks[name].Release(); err != nil {
		return outputError(err)
	}
	delete(j.locks, name)
	return j.acquire(name, real, stderr)
}
