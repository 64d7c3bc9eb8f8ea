package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"trireme/checkpoint"
	"trireme/internal/rundir"
)

// busy is the error of a directory that another process uses.
func busy(err error) error {
	var in *rundir.InUse
	if !errors.As(err, &in) {
		return err
	}
	try := "another --output_dir, or wait until it has ended"
	if in.Owner.PID > 0 {
		try = fmt.Sprintf("another --output_dir, or stop that run: kill %d (on %s)", in.Owner.PID, in.Owner.Host)
	}
	return &Exit{CodeUsage, &Problem{What: in.Error(), Try: try, Err: err}}
}

// claim locks the run's directory, and checkpoint.dir, for this process and rank 0. It checks under the
// lock that a new run's directory holds no other run.
func (j *job) claim(stderr io.Writer) (err error) {
	dir, saves := j.cfg.OutputDir, j.cfg.Checkpoint.Dir
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
	if saves != "" && !sameFile(saves, dir) {
		if err := j.acquire(checkpointLockVar, saves, stderr); err != nil {
			return err
		}
	}
	if j.cfg.MoveAside && j.cfg.Resume != "auto" {
		if saves != "" && checkpoint.Any(saves) {
			err = j.moveAside(checkpointLockVar, saves, stderr)
		}
		if err == nil && rundir.Held(dir) != "" {
			err = j.moveAside(lockVar, dir, stderr)
		}
		if err != nil {
			return err
		}
	}
	if err := j.vacant(dir); err != nil {
		return err
	}
	id, err := j.identity(dir)
	if err != nil {
		return err
	}
	return j.settle(runID{Dir: dir, ID: id})
}

// acquire makes a directory where there is none, and takes its lock.
func (j *job) acquire(name, dir string, stderr io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &Exit{CodeUsage, outputError(err)}
	}
	lock, err := rundir.Acquire(dir)
	if err != nil {
		return busy(outputError(err))
	}
	if j.locks == nil {
		j.locks = map[string]*rundir.Lock{}
	}
	j.locks[name] = lock
	if o := lock.Left; o.PID > 0 && o.Host != hostname() {
		_, err = fmt.Fprintf(stderr, "%s: pid %d on %s wrote here and did not end in order. if it still runs, stop it\n", dir, o.PID, o.Host)
	}
	return err
}

// release gives the locks up.
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

// sameFile says whether two paths lead to the same place.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// moveAside renames a directory that holds another run, whose lock this process has, and takes an
// empty one in its place.
func (j *job) moveAside(name, dir string, stderr io.Writer) error {
	if below(j.cfg.Resume, dir) {
		return usage(fmt.Sprintf("resume names %s, and move_aside is to rename %s", j.cfg.Resume, dir), "another --output_dir")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return outputError(err)
	}
	to, err := rundir.Aside(real)
	if err != nil {
		return &Exit{CodeUsage, fmt.Errorf("move_aside: %w", err)}
	}
	if _, err := fmt.Fprintf(stderr, "%s held another run: it is %s now\n", dir, to); err != nil {
		return err
	}
	if err := j.locks[name].Release(); err != nil {
		return outputError(err)
	}
	delete(j.locks, name)
	return j.acquire(name, real, stderr)
}

// below says whether a path leads into a directory.
func below(path, dir string) bool {
	a, err := filepath.Abs(path)
	d, err2 := filepath.Abs(dir)
	if err != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(d, a)
	return err == nil && filepath.IsLocal(rel)
}
