package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"trireme/fault"
	"trireme/internal/concurrent"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
)

const (
	stepPrefix     = "step-"
	tempPrefix     = ".tmp-"      // being written, or being deleted
	replacedPrefix = ".replaced-" // being replaced by a checkpoint of the same step
)

var errNotExist = fs.ErrNotExist

func stepDir(step int) string { return stepPrefix + strconv.Itoa(step) }

// dirName is the name of a checkpoint directory: step-N, .replaced-step-N-ID, or in an object store step-N-K-ID.
type dirName struct {
	name     string
	step     int
	attempt  int    // K, from 1 on; 0 for the others
	mark     string // of the run, in ID
	replaced bool
}

// parseDir parses the name of a checkpoint directory.
func parseDir(name string) (n dirName, ok bool) {
	n.name = name
	rest, replaced := strings.CutPrefix(name, replacedPrefix)
	n.replaced = replaced
	digits, ok := strings.CutPrefix(rest, stepPrefix)
	digits, rest, more := strings.Cut(digits, "-")
	if n.step, ok = parseCount(digits, ok); !ok {
		return n, false
	}
	switch {
	case replaced:
		return n, true
	case more:
		count, id, _ := strings.Cut(rest, "-")
		if n.attempt, ok = parseCount(count, attemptID.MatchString(id)); ok {
			n.mark = id[:attemptIDBytes/2]
		}
		return n, ok && n.attempt > 0
	}
	return n, true
}

// attemptID matches the last part of a name: the mark of a run, and characters of rand.Text.
var attemptID = regexp.MustCompile(`^[A-Z2-7]{8}$`)

const attemptIDBytes = 8

// parseCount parses digits as strconv.Itoa writes them.
func parseCount(digits string, ok bool) (int, bool) {
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// newestFirst orders directories by step, and those of a step by age.
func newestFirst(a, b dirName) int {
	return cmp.Or(cmp.Compare(b.step, a.step), compareBool(a.replaced, b.replaced), cmp.Compare(b.attempt, a.attempt), cmp.Compare(b.name, a.name))
}

// Candidate is a directory with a checkpoint's name, valid or not.
type Candidate struct {
	Path string
	Step int
	Run  string // ID of the run that saved it; empty if unknown
	Err  error  // why it is invalid; nil if all but the tensors' bytes was verified

	Saved time.Time // when it was committed; zero if unknown
	Bytes int64     // of its data files; 0 if unknown

	hostSave string // manifest.HostSave
}

// List verifies every checkpoint in dir, newest step first. It reads commit records, manifests and
// headers, but no tensors. A missing directory is empty.
func List(dir string) ([]Candidate, error) {
	fs, err := storageAt(dir)
	if err != nil {
		return nil, err
	}
	return list(fs, dir)
}

func list(fs fileStore, dir string) ([]Candidate, error) {
	names, err := fs.ReadDir(dir)
	if errors.Is(err, errNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var ns []dirName
	for _, name := range names {
		if n, ok := parseDir(name); ok {
			ns = append(ns, n)
		}
	}
	slices.SortFunc(ns, newestFirst)
	var steps [][]dirName
	for i, n := range ns {
		if i == 0 || n.step != ns[i-1].step {
			steps = append(steps, nil)
		}
		last := &steps[len(steps)-1]
		*last = append(*last, n)
	}
	found := make([][]Candidate, len(steps))
	err = concurrent.Each(filesAtOnce(fs), len(steps), func(_, i int) (err error) {
		found[i], err = ofStep(fs, dir, steps[i])
		return err
	})
	return slices.Concat(found...), err
}

// ofStep verifies the directories of a step, newest first.
func ofStep(fs fileStore, dir string, ns []dirName) (found []Candidate, err error) {
	valid := false
	for _, n := range ns {
		// One set aside, or an older one in an object store, counts only until its replacement is valid.
		if (n.replaced || n.attempt > 0) && valid {
			continue
		}
		c, err := examine(fs, dir, n)
		switch {
		case err != nil:
			return nil, err
		case c.Err == nil:
			valid = true
		case n.replaced, objectstore.IsURL(dir) && n.attempt > 0 && errors.Is(c.Err, errUncommitted) && errors.Is(c.Err, errNotExist): // an attempt
			continue
		}
		found = append(found, c)
	}
	return found, nil
}

// AtStep returns the path of the valid checkpoint of a step in dir, in an object store the newest one; "" without one.
func AtStep(ctx context.Context, dir string, step int) (string, error) {
	fs, err := storageAt(dir)
	if err != nil {
		return "", err
	}
	return atStep(fs.within(ctx), dir, step)
}

func atStep(fs fileStore, dir string, step int) (string, error) {
	names, err := fs.ReadDir(dir)
	if err != nil && !errors.Is(err, errNotExist) {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	var ns []dirName
	for _, name := range names {
		if n, ok := parseDir(name); ok && n.step == step {
			ns = append(ns, n)
		}
	}
	slices.SortFunc(ns, newestFirst)
	found, err := ofStep(fs, dir, ns)
	if i := slices.IndexFunc(found, func(c Candidate) bool { return c.Err == nil }); i >= 0 {
		return found[i].Path, err
	}
	return "", err
}

// examine verifies a directory. The error is that of a storage that does not answer.
func examine(fs fileStore, dir string, n dirName) (Candidate, error) {
	path := join(dir, n.name)
	m, err := verify(fs, path)
	if unavailable(err) {
		return Candidate{}, fmt.Errorf("checkpoint: %w", err)
	}
	if err == nil && m.Step != n.step {
		err = fmt.Errorf("its manifest is of step %d", m.Step)
	}
	c := Candidate{Path: path, Step: n.step, Err: err}
	if m != nil {
		c.Run, c.Bytes, c.hostSave = m.Run, m.bytes(), m.HostSave
		c.Saved, _ = fs.Modified(join(path, commitName))
	}
	return c, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Exists reports whether dir has a directory with a checkpoint's name.
func Exists(dir string) bool {
	names, _ := Names(dir) // a read error is reported by the caller that uses dir
	return slices.ContainsFunc(names, func(name string) bool { _, ok := parseDir(name); return ok })
}

// Names lists the names in a directory of the file system or of an object store.
func Names(dir string) ([]string, error) {
	fs, err := storageAt(dir)
	if err != nil {
		return nil, err
	}
	names, err := fs.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return names, nil
}

// Is reports whether a directory is a checkpoint, complete or not.
func Is(dir string) bool {
	names, _ := Names(dir) // a read error is reported by the caller that uses dir
	return isCheckpoint(names)
}

func isCheckpoint(names []string) bool {
	return slices.Contains(names, manifestName) || slices.Contains(names, commitName)
}

// RunIDs lists the IDs of runs with valid checkpoints in dir.
func RunIDs(dir string) ([]string, error) {
	found, err := List(dir)
	var runs []string
	for _, f := range found {
		if f.Err == nil && f.Run != "" && !slices.Contains(runs, f.Run) {
			runs = append(runs, f.Run)
		}
	}
	return runs, err
}

// owns reports whether a checkpoint belongs to a run. A checkpoint without a run ID belongs to the
// run of its directory; run "" owns all.
func owns(run string, f Candidate) bool { return run == "" || f.Run == "" || f.Run == run }

// Latest returns the path of the newest valid checkpoint of a run in dir, or "", and a notice for
// each newer invalid directory. Run "" is any.
func Latest(dir, run string) (path string, notices []string, err error) {
	fs, err := storageAt(dir)
	if err != nil {
		return "", nil, err
	}
	return latest(fs, dir, run)
}

func latest(fs fileStore, dir, run string) (path string, notices []string, err error) {
	c, notices, err := newestIn(fs, dir, run, nil)
	for i := range notices {
		notices[i] += ". using " + filepath.Base(c.path)
	}
	return c.path, notices, err
}

// newestIn returns the newest valid checkpoint of a run in dir without those that failed to load, and a notice for each
// newer directory that it skipped. An error comes with the newest step that was found.
func newestIn(fs fileStore, dir, run string, failed []Candidate) (c choice, notices []string, err error) {
	c = noChoice
	found, err := list(fs, dir)
	if err != nil {
		return c, nil, err
	}
	var broken, others []Candidate
	for _, f := range found {
		if owns(run, f) {
			c.seen = max(c.seen, f.Step)
		}
		switch {
		case c.path != "" || slices.ContainsFunc(failed, func(x Candidate) bool { return x.Path == f.Path }):
		case errors.Is(f.Err, errNewer):
			return c, nil, f.newer()
		case f.Err != nil:
			broken = append(broken, f)
			notices = append(notices, fmt.Sprintf("checkpoint %s is incomplete (%v)", f.Path, f.Err))
		case !owns(run, f):
			others = append(others, f)
			notices = append(notices, fmt.Sprintf("checkpoint %s belongs to another run (%s)", f.Path, f.Run))
		default:
			c.path, c.step = f.Path, f.Step
		}
	}
	switch {
	case c.path != "":
		return c, notices, nil
	case len(broken)+len(failed) > 0:
		return c, nil, fault.Try(&noneVerified{dir, failed, broken}, "a copy of one of them, %s for another checkpoint, or a new run", fault.Set("resume", "DIR"))
	case len(others) > 0:
		return c, nil, foreign(dir, others[0])
	}
	return c, nil, nil
}

// newer is the error for a checkpoint of a newer format: an older one would silently discard steps.
func (f Candidate) newer() error {
	return fault.Try(fmt.Errorf("checkpoint: %s: %w", f.Path, f.Err), "that version, or %s for another checkpoint", fault.Set("resume", "DIR"))
}

// foreign is the error for a directory with another run's checkpoints.
func foreign(dir string, f Candidate) error {
	return fault.Try(fmt.Errorf("checkpoint: %s holds checkpoints of another run (%s of run %s)", dir, filepath.Base(f.Path), cmp.Or(f.Run, "unknown")), "%s in that run's output_dir, another output_dir, or another checkpoint.dir", fault.Set("resume", "auto"))
}

// noneVerified is the error if no checkpoint can be used. Starting from scratch instead would
// silently discard the run.
type noneVerified struct {
	dir            string
	failed, broken []Candidate // failed to load; not verified
}

func (e *noneVerified) Error() string {
	var why []string
	for _, f := range e.failed {
		why = append(why, fmt.Sprintf("%s: %v", filepath.Base(f.Path), f.Err))
	}
	for _, f := range e.broken {
		why = append(why, fmt.Sprintf("%s is incomplete (%v)", filepath.Base(f.Path), f.Err))
	}
	n, more := len(why), ""
	if n > 3 {
		why, more = why[:3], "; and so on"
	}
	return fmt.Sprintf("checkpoint: none of the %d checkpoints in %s can be used: %s%s", n, e.dir, strings.Join(why, "; "), more)
}

func (e *noneVerified) Unwrap() error { return ErrCorrupt }

// resolve returns the checkpoint for the setting resume: none for "none" and ""; else resume is a checkpoint, a directory
// of checkpoints or an output directory.
func resolve(ctx context.Context, fs storage, dir, resume string) (path string, notices []string, err error) {
	fs = fs.within(ctx)
	switch resume {
	case "", "none":
		found, err := list(fs, dir)
		if err == nil && len(found) > 0 {
			err = foreign(dir, found[0])
		}
		return "", nil, err
	}
	if fs, err = storageOf(fs, dir, resume); err != nil {
		return "", nil, err
	}
	fs = fs.within(ctx)
	names, err := fs.ReadDir(resume)
	if err != nil {
		return "", nil, fmt.Errorf("checkpoint: resume from %s: %w", resume, err)
	}
	if isCheckpoint(names) {
		return resume, nil, nil
	}
	in := resume
	if slices.Contains(names, rundir.Checkpoints) {
		in = join(resume, rundir.Checkpoints)
	}
	path, notices, err = latest(fs, in, "")
	if err == nil && path == "" {
		err = fault.Try(fmt.Errorf("checkpoint: resume from %s: it is not a checkpoint and contains none", resume), "%s, or the path of a directory step-N", fault.Set("resume", "auto"))
	}
	return path, notices, err
}

// Remove deletes a checkpoint of dir. No partial checkpoint has a checkpoint's name at any time. The caller holds the
// lock of the run.
func Remove(dir, path string) error {
	fs, err := storageAt(dir)
	if err != nil {
		return err
	}
	return fs.remove(dir, path)
}
