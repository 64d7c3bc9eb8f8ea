package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"trireme/checkpoint"
	"trireme/internal/conf"
	"trireme/internal/rundir"
	"trireme/internal/verify"
)

// stopGrace is the time that a trial has to end after a signal.
const stopGrace = time.Minute

// runTrials runs the trials of an experiment one after the other, and sets the rows of its report.
func runTrials(ctx context.Context, e verify.Experiment, r *verify.Report, stderr io.Writer) (err error) {
	stopOf(ctx).SetGrace(stopGrace)
	dir, err := os.MkdirTemp("", "trireme-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all := e.Trials()
	p := newVerifyProgress(stderr, all)
	defer p.close()
	var reference verify.Outcome
	for i, t := range all {
		p.start(i)
		began := time.Now()
		got, epochs, err := runTrialParts(ctx, filepath.Join(dir, strconv.Itoa(i)), t)
		if err != nil {
			return err
		}
		if i == 0 {
			reference, r.Epochs = got, verify.Number(epochs)
			if n := len(got.Steps); n < e.Steps {
				return usage(fmt.Sprintf("the run ends after step %d, and %d steps are compared", n, e.Steps), "--set training.num_train_epochs=N, or more data")
			}
		}
		row := verify.NewRow(t, reference, got, time.Since(began).Seconds())
		r.Rows = append(r.Rows, row)
		p.done(i, row)
	}
	r.Finish(reference)
	return nil
}

// runTrialParts runs the parts of a trial in dir, which it removes, and returns its outcome and the passes over the data.
func runTrialParts(ctx context.Context, dir string, t verify.Trial) (out verify.Outcome, epochs float64, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return out, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	output := filepath.Join(dir, "run")
	for i, p := range t.Parts {
		c := p.Config
		if c.OutputDir, c.Resume = output, "none"; i > 0 {
			c.Resume = "auto"
		}
		file := filepath.Join(dir, "run.yaml")
		var text strings.Builder
		if err := conf.Print(&text, c, nil); err != nil {
			return out, 0, err
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			return out, 0, err
		}
		env := append(withoutKeys(os.Environ()), trialVar+"="+trialUntil+strconv.Itoa(p.Until))
		_, said, err := runTrial(ctx, env, []string{"train", "--json", "--config=" + file, "--nproc=" + strconv.Itoa(p.World)})
		if err != nil {
			position := regexp.MustCompile(regexp.QuoteMeta(file) + `:\d+:\d+: `) // in a file that the user does not see
			if err = trialError(ctx, t, err, position.ReplaceAllString(said, "")); codeOf(err) != CodeStopped {
				return out, 0, err
			}
		}
	}
	records, err := readRecords(filepath.Join(output, rundir.Metrics))
	if err != nil {
		return out, 0, err
	}
	for _, rec := range records {
		out.Steps = append(out.Steps, verify.Step{Loss: verify.Number(rec.Loss), GradNorm: verify.Number(rec.GradNorm)})
		epochs = rec.Epoch
	}
	out.Digest, err = stateDigest(ctx, filepath.Join(output, rundir.Checkpoints))
	return out, epochs, err
}

// stateDigest returns the digest of the newest checkpoint.
func stateDigest(ctx context.Context, dir string) (string, error) {
	path, _, err := checkpoint.Latest(dir, "")
	if err != nil {
		return "", err
	}
	c, err := checkpoint.Open(path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	sum, err := c.StateDigest(ctx)
	return fmt.Sprintf("%x", sum), err
}

// withoutKeys returns an environment without keys of the configuration, which the trials' files have.
func withoutKeys(env []string) []string {
	keys := environment()
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ok := keys[name]
		return ok
	})
}

// verifyProgress shows which trial runs and the time left: one redrawn line on a terminal, a line after each trial
// elsewhere.
type verifyProgress struct {
	w      io.Writer
	width  func() int // of the terminal; nil: none
	trials []verify.Trial
	starts []int // of processes, before each trial and after the last
	began  time.Time
}

func newVerifyProgress(w io.Writer, trials []verify.Trial) *verifyProgress {
	p := &verifyProgress{trials: trials, starts: []int{0}, began: time.Now()}
	p.w, p.width = openLine(w)
	for i, t := range trials {
		p.starts = append(p.starts, p.starts[i]+len(t.Parts))
	}
	return p
}

// left estimates the time left before trial i.
func (p *verifyProgress) left(i int) string {
	if i == 0 || i == len(p.trials) {
		return ""
	}
	each := time.Since(p.began) / time.Duration(p.starts[i])
	return fmt.Sprintf("; about %v left", (each * time.Duration(p.starts[len(p.trials)]-p.starts[i])).Round(time.Second))
}

func (p *verifyProgress) start(i int) {
	if p.width != nil {
		redraw(p.w, p.width(), fmt.Sprintf("run %d of %d: %v%s", i+1, len(p.trials), p.trials[i], p.left(i)))
	}
}

func (p *verifyProgress) done(i int, row verify.Row) {
	if p.width == nil {
		fmt.Fprintf(p.w, "run %d of %d: %v: %s (%.1f s)%s\n", i+1, len(p.trials), p.trials[i], row.Text(), row.Seconds, p.left(i+1))
	}
}

func (p *verifyProgress) close() {
	if p.width != nil {
		redraw(p.w, 1, "")
	}
}
