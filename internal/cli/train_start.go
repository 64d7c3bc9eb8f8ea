package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"trireme/data"
	"trireme/model"
	"trireme/monitor"
	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

// printStart says what is about to be trained, and on what.
func (j *job) printStart(w io.Writer) error {
	s, t := j.summary, j.cfg.Training
	var rates []string
	for _, lr := range s.LearningRates {
		rates = append(rates, strconv.FormatFloat(lr, 'g', 4, 64))
	}
	more := ""
	if s.Steps > len(rates) {
		more = ", ..."
	}
	warmup := ""
	if t.WarmupRatio > 0 {
		warmup = fmt.Sprintf("; warm-up: %d steps", s.WarmupSteps)
	}
	strategy := s.Strategy
	if dt, _ := tensor.ParseDType(j.cfg.Precision.ParamDType); dt != tensor.F32 {
		strategy += fmt.Sprintf(", computing in %v", dt)
	}
	fmt.Fprintf(w, "model: %d parameters; ranks: %d, %s; rows of a step: %d = micro-batch %d x accumulation %d x ranks %d\n",
		s.Parameters, s.Ranks, strategy, s.RowsPerStep, t.MicroBatchSize, s.RowsPerStep/t.MicroBatchSize/s.Ranks, s.Ranks)
	if err := j.printData(w, &s.Contents); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "steps: %d, %.3g epochs%s; learning rates: %s%s\n",
		s.Steps, float64(s.Steps)/float64(s.StepsPerEpoch), warmup, strings.Join(rates, ", "), more)
	return err
}

// printData says what rows there are to learn from.
func (j *job) printData(w io.Writer, s *train.Contents) error {
	held := ""
	if s.EvalRows > 0 {
		held = fmt.Sprintf(", and %d held out", s.EvalRows)
	}
	if s.Splits != "" {
		held += " (" + s.Splits + ")"
	}
	counted := fmt.Sprintf("%d of them are learned (%.1f%%)", s.Counted, share(s.Counted, s.Tokens))
	among := ""
	if s.Looked < s.Rows { // an estimate, from rows spread evenly over all
		learned := float64(s.Counted) / float64(s.Looked) * float64(s.Rows)
		counted = fmt.Sprintf("about %.4g of them are learned (%.1f%%)", learned, 100*learned/float64(s.Tokens))
		among = fmt.Sprintf(" of %d looked at", s.Looked)
	}
	_, err := fmt.Fprintf(w, `data: %s (%s): %d rows of %d positions%s
data: %d tokens, which fill %.1f%% of the positions; %s
data: rows with nothing to learn: %d%s, and %d left out; rows cut: %d
`, j.dataName(), s.Format, s.Rows, s.SequenceLength, held,
		s.Tokens, share(s.Tokens, int64(s.Rows)*int64(s.SequenceLength)), counted, s.Empty, among, s.Barren, s.Cut)
	return err
}

// share is a percentage.
func share(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }

func (j *job) dataName() string {
	if p := j.named("data.path"); p != "" {
		return p
	}
	return "the source of Go's standard library"
}

// plan is what one rank of the job needs.
func (j *job) plan(ctx context.Context) (planner.Plan, error) {
	return j.planJob(j.model, j.summary.SequenceLength, j.summary.Micro, j.summary.Ranks).Run(ctx, 0)
}

// planJob is the job for rows of so many positions, of which micro-batches have what rows says.
func (j *job) planJob(config *model.Config, positions int, rows data.Info, ranks int) planner.Job {
	return planner.Job{Config: j.cfg, Model: config, Ranks: ranks, Positions: positions, Rows: rows}
}

// dryRun says what the job is and would need.
func (j *job) dryRun(ctx context.Context, w io.Writer) error {
	if err := j.printStart(w); err != nil {
		return err
	}
	p, err := j.plan(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "memory planned for each rank:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for c := range tensor.NumCategories {
		fmt.Fprintf(t, "%s\t%s\t\n", c, monitor.Bytes(p.Memory.Peak[c]))
	}
	fmt.Fprintf(t, "at one moment\t%s\t\n", monitor.Bytes(p.Memory.PeakTotal))
	return t.Flush()
}

// card is run.json: what was run, when, and how it ended. One that has no end is of a run
// that is under way or was killed.
type card struct {
	path string

	Schema     string     `json:"schema"`
	Version    string     `json:"version"`
	Command    []string   `json:"command"`
	Started    time.Time  `json:"started"`
	Ended      *time.Time `json:"ended,omitempty"`
	Exit       *int       `json:"exit,omitempty"`
	World      int        `json:"world"`
	Strategy   string     `json:"strategy"`
	Device     string     `json:"device"`
	Steps      int        `json:"steps"`
	Parameters int64      `json:"parameters"`
}

// openCard makes the output directory and what describes the run in it: run.json and the
// configuration.
func (j *job) openCard(ranks int) (*card, error) {
	dir := j.cfg.OutputDir
	if dir == "" {
		return nil, usage("output_dir names no directory", "--output_dir out")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, &Exit{CodeUsage, fmt.Errorf("output_dir: %w", err)}
	}
	final := filepath.Join(dir, finalName)
	if st, err := os.Stat(final); err == nil && !st.IsDir() {
		return nil, usage(final+" is no directory, and the model is to go there at the end", "another --output_dir, or move the file")
	}
	if err := replaceFile(filepath.Join(dir, configName), []byte(j.resolved)); err != nil {
		return nil, err
	}
	c := &card{
		path: filepath.Join(dir, "run.json"), Schema: "trireme.run/1", Version: readVersion().describe(), Command: os.Args, Started: time.Now().UTC(),
		World: ranks, Strategy: j.summary.Strategy, Device: j.cfg.Device.Name, Steps: j.summary.Steps, Parameters: j.summary.Parameters,
	}
	return c, c.write()
}

// close notes how the run ended.
func (c *card) close(exit int) error {
	now := time.Now().UTC()
	c.Ended, c.Exit = &now, &exit
	return c.write()
}

// write replaces the file in one rename.
func (c *card) write() error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("run.json: %w", err)
	}
	return replaceFile(c.path, append(b, '\n'))
}

// replaceFile writes a small file so that readers see the old one or the new one, and a full
// disk costs nothing that was there.
func replaceFile(path string, data []byte) error {
	tmp := path + ".tmp"
	err := os.WriteFile(tmp, data, 0o644)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp) // the first error is the one to tell
		return fmt.Errorf("output_dir: %w", err)
	}
	return nil
}
