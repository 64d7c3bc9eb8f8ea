package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
	"trireme/internal/rundir"
)

const (
	stepPrefix  = "step-"
	tempPrefix  = ".tmp-"      // being written, or being deleted
	asidePrefix = ".replaced-" // being replaced by a checkpoint of the same step
)

var errNotExist = fs.ErrNotExist

func stepDir(step int) string { return stepPrefix + strconv.Itoa(step) }

// parseDir reads the name of a directory that may hold a checkpoint.
func parseDir(name string) (step int, aside, ok bool) {
	rest, aside := strings.CutPrefix(name, asidePrefix)
	digits, ok := strings.CutPrefix(rest, stepPrefix)
	if aside {
		digits, _, _ = strings.Cut(digits, "-")
	}
	step, err := strconv.Atoi(digits)
	return step, aside, ok && err == nil && step >= 0 && strconv.Itoa(step) == digits
}

// Candidate is a directory that is, or should be, a checkpoint.
type Candidate struct {
	Path string
	Step int
	Run  string // identity of the run that saved it; empty: unknown
	Err  error  // why it is not one; nil where all but the tensors' bytes was verified
}

// List looks at every checkpoint in dir, newest first: by step. It reads commit records,
// manifests and headers, and no tensors. A directory that does not exist holds none.
func List(dir string) ([]Candidate, error) { return list(disk{}, dir) }

func list(fs fileSystem, dir string) ([]Candidate, error) {
	names, err := fs.ReadDir(dir)
	if errors.Is(err, errNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	type candidate struct {
		Candidate
		aside bool
	}
	var cs []candidate
	for _, name := range names {
		step, aside, ok := parseDir(name)
		if !ok {
			continue
		}
		path := filepath.Join(dir, name)
		m, err := verify(fs, path)
		if err == nil && m.Step != step {
			err = fmt.Errorf("its manifest is of step %d", m.Step)
		}
		f := Candidate{Path: path, Step: step, Err: err}
		if m != nil {
			f.Run = m.Run
		}
		cs = append(cs, candidate{f, aside})
	}
	slices.SortFunc(cs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.Step, a.Step), compareBool(a.aside, b.aside))
	})
	var found []Candidate
	for i, c := range cs {
		// What was moved aside counts only while nothing has taken its place.
		if c.aside && (c.Err != nil || i > 0 && cs[i-1].Step == c.Step && cs[i-1].Err == nil) {
			continue
		}
		found = append(found, c.Candidate)
	}
	return found, nil
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

// Exists says whether dir holds a directory that is, or should be, a checkpoint.
func Exists(dir string) bool {
	names, _ := disk{}.ReadDir(dir) // what cannot be read is found when it is used
	return slices.ContainsFunc(names, func(name string) bool { _, _, ok := parseDir(name); return ok })
}

// RunIDs lists the identities of the runs that have verified checkpoints in dir.
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

// owns reports whether a checkpoint belongs to a run. One that names no run belongs to the run of its
// directory; run "" owns every checkpoint.
func owns(run string, f Candidate) bool { return run == "" || f.Run == "" || f.Run == run }

// Latest is the path of the newest verified checkpoint of a run in dir, empty where there is none,
// and a line about each newer directory that is not one. Run "" is any.
func Latest(dir, run string) (path string, notices []string, err error) {
	return latest(disk{}, dir, run, nil)
}

// latest leaves out those that have failed to load.
func latest(fs fileSystem, dir, run string, failed []Candidate) (path string, notices []string, err error) {
	found, err := list(fs, dir)
	if err != nil {
		return "", nil, err
	}
	var broken, others []Candidate
	for _, f := range found {
		switch {
		case path != "" || slices.ContainsFunc(failed, func(x Candidate) bool { return x.Path == f.Path }):
		case errors.Is(f.Err, errNewer):
			return "", nil, fault.Try(fmt.Errorf("checkpoint: %s: %w", f.Path, f.Err), "that version, or %s of another checkpoint", fault.Set("resume", "DIR"))
		case f.Err != nil:
			broken = append(broken, f)
		case !owns(run, f):
			others = append(others, f)
		default:
			path = f.Path
		}
	}
	name := filepath.Base(path)
	switch {
	case path != "":
		for _, f := range others {
			notices = append(notices, fmt.Sprintf("checkpoint %s is of another run (%s) and is left alone. using %s", filepath.Base(f.Path), f.Run, name))
		}
		for _, b := range broken {
			notices = append(notices, fmt.Sprintf("checkpoint %s is incomplete (%v). using %s (verified)", filepath.Base(b.Path), b.Err, name))
		}
	case len(broken)+len(failed) > 0:
		return "", nil, fault.Try(&noneVerified{dir, failed, broken}, "a copy of one of them, %s of another, or a new run", fault.Set("resume", "DIR"))
	case len(others) > 0:
		return "", nil, foreign(dir, others[0])
	}
	return path, notices, nil
}

// foreign is the error of a directory in which a run would mix with another.
func foreign(dir string, f Candidate) error {
	return fault.Try(fmt.Errorf("checkpoint: %s holds checkpoints of another run (%s of run %s)", dir, filepath.Base(f.Path), cmp.Or(f.Run, "unknown")), "%s in that run's output_dir, another output_dir, or another checkpoint.dir", fault.Set("resume", "auto"))
}

// noneVerified is the error where there are checkpoints and none can be used: to start
// anew without a word would throw the run away.
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

// resolve finds what the setting resume asks for: "none" and "" nothing; "auto" the newest
// verified checkpoint of the run in dir, if any; anything else is a checkpoint's directory, or one that
// holds checkpoints, or an output directory.
func resolve(fs fileSystem, dir, run, resume string) (path string, notices []string, err error) {
	switch resume {
	case "", "none":
		found, err := list(fs, dir)
		if err == nil && len(found) > 0 {
			err = foreign(dir, found[0])
		}
		return "", nil, err
	case "auto":
		return latest(fs, dir, run, nil)
	}
	names, err := fs.ReadDir(resume)
	if err != nil {
		return "", nil, fmt.Errorf("checkpoint: resume from %s: %w", resume, err)
	}
	if slices.Contains(names, manifestName) || slices.Contains(names, commitName) {
		return resume, nil, nil
	}
	in := resume
	if slices.Contains(names, rundir.Checkpoints) {
		in = filepath.Join(resume, rundir.Checkpoints)
	}
	path, notices, err = latest(fs, in, "", nil)
	if err == nil && path == "" {
		err = fault.Try(fmt.Errorf("checkpoint: resume from %s: it is not a checkpoint and holds none", resume), "%s, or the path of a directory step-N", fault.Set("resume", "auto"))
	}
	return path, notices, err
}
