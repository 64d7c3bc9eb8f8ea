package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"trireme/data"
	"trireme/internal/rundir"
	"trireme/model"
	"trireme/monitor"
	"trireme/planner"
	"trireme/tensor"
	"trireme/tokenizer"
	"trireme/train"
)

// printSummary prints the result of a finished run that began at began: time, tokens, evaluations,
// measured memory, a sample of the built-in recipe, and paths.
func (j *job) printSummary(ctx context.Context, w io.Writer, began time.Time) error {
	ranks, err := j.readMemory()
	if err != nil {
		return err
	}
	plan, err := j.plan(ctx)
	if err != nil {
		return err
	}
	final, records := filepath.Join(j.cfg.OutputDir, rundir.FinalModel), filepath.Join(j.cfg.OutputDir, rundir.Metrics)
	r, err := readRunResult(j.cfg.OutputDir, began)
	if err != nil {
		return err
	}
	r.printDone(ctx, w, j.cfg, time.Since(began))
	if ranks[0].Total > 0 { // the run made steps
		if err := printMemory(w, plan, ranks); err != nil {
			return err
		}
	}
	if err := j.printSample(ctx, w, final); err != nil {
		return err
	}
	if err := printVerdict(w, j.cfg.OutputDir); err != nil {
		return err
	}
	average := ""
	if j.cfg.Export.Weights == train.ExportBoth {
		average = "   average: " + filepath.Join(j.cfg.OutputDir, rundir.EMAModel)
	}
	fmt.Fprintln(w, monitor.EscapeControl(fmt.Sprintf("model: %s%s   records: %s", final, average, records)))
	_, err = fmt.Fprintln(w, monitor.EscapeControl("try: "+j.tryModel(final)))
	return err
}

// printSample prints a sample of the built-in recipe's model. A stop cuts it short without an error,
// since the run is done.
func (j *job) printSample(ctx context.Context, w io.Writer, model string) error {
	if j.recipe == nil || ctx.Err() != nil {
		return nil
	}
	err := j.recipe.Sample(ctx, w, families, model)
	if err != nil && ctx.Err() != nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}

// tryModel returns a command to try the model in dir.
func (j *job) tryModel(dir string) string {
	reads, chats := tokenizer.Exists(dir), false
	if j.summary.Format == data.FormatChat || j.summary.Format == data.FormatShareGPT {
		if chats = j.cfg.Data.ChatTemplate != ""; chats {
			dir = j.cfg.OutputDir // data.chat_template is not exported
		} else if tok, err := tokenizer.Load(dir); err == nil {
			chats = tok.ChatTemplate() != ""
		}
	}
	dir = quoted(dir)
	if j.recipe != nil {
		return "trireme generate --model " + dir + ` --prompt "func (s *"`
	}
	info, err := train.ModelInfo(j.model)
	switch {
	case err != nil || info.Task != model.Causal || !reads:
		return "trireme eval --model " + dir + " --data FILE"
	case chats:
		return "trireme generate --model " + dir + ` --chat --prompt "Hello"`
	}
	return "trireme generate --model " + dir + ` --prompt "Once upon a time"`
}

func (j *job) readMemory() ([]train.RankMemory, error) {
	b, err := os.ReadFile(filepath.Join(j.cfg.OutputDir, rundir.Memory))
	if err != nil {
		return nil, err
	}
	var ranks []train.RankMemory
	if err := json.Unmarshal(b, &ranks); err != nil {
		return nil, fmt.Errorf("%s: %w", rundir.Memory, err)
	}
	if len(ranks) != j.summary.Ranks {
		return nil, fmt.Errorf("%s: %d ranks, not %d", rundir.Memory, len(ranks), j.summary.Ranks)
	}
	return ranks, nil
}

// printMemory compares measured memory with the plan for rows of the maximum length: one line, or a
// table if a rank exceeds the plan.
func printMemory(w io.Writer, plan planner.Plan, ranks []train.RankMemory) error {
	resident, total, of := int64(0), int64(0), ""
	for _, r := range ranks {
		resident, total = max(resident, r.Resident), max(total, r.Total)
		if r.Resident == 0 && r.Rank > 0 {
			of = " in a process"
		}
	}
	if within(plan.Memory, ranks) {
		who := ""
		switch len(ranks) {
		case 1:
		case 2:
			who = " on both ranks"
		default:
			who = fmt.Sprintf(" on all %d ranks", len(ranks))
		}
		offloaded := ""
		if n := plan.Memory.Peak[tensor.Offloaded]; n > 0 {
			offloaded = monitor.Bytes(n) + " offloaded; "
		}
		measured := fmt.Sprintf("measured as planned%s: %s peak", who, monitor.Bytes(total))
		if total < plan.Memory.PeakTotal {
			measured = fmt.Sprintf("%s peak%s, %s planned for full rows", monitor.Bytes(total), who, monitor.Bytes(plan.Memory.PeakTotal))
		}
		_, err := fmt.Fprintf(w, "memory: %s (%s); %s%s resident%s\n", measured, peakParts(plan.Memory), offloaded, monitor.Bytes(resident), of)
		return err
	}
	fmt.Fprintln(w, "\nmemory, peak by category:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\tplanned\t")
	for _, r := range ranks {
		fmt.Fprintf(t, "rank %d\t", r.Rank)
	}
	fmt.Fprintln(t)
	row := func(name string, plan int64, of func(train.RankMemory) int64) {
		fmt.Fprintf(t, "%s\t%s\t", name, monitor.Bytes(plan))
		for _, r := range ranks {
			fmt.Fprintf(t, "%s\t", monitor.Bytes(of(r)))
		}
		fmt.Fprintln(t)
	}
	for c := range tensor.NumCategories {
		row(c.String(), plan.Memory.Peak[c], func(r train.RankMemory) int64 { return r.Peak[c.String()] })
	}
	row("total", plan.Memory.PeakTotal, func(r train.RankMemory) int64 { return r.Total })
	fmt.Fprint(t, "resident\t\t")
	for _, r := range ranks {
		if r.Resident == 0 { // the first rank of the process has it
			fmt.Fprint(t, "\t")
			continue
		}
		fmt.Fprintf(t, "%s\t", monitor.Bytes(r.Resident))
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// within reports whether no rank exceeds the plan in any category.
func within(plan tensor.Usage, ranks []train.RankMemory) bool {
	for _, r := range ranks {
		if r.Total > plan.PeakTotal {
			return false
		}
		for c := range tensor.NumCategories {
			if r.Peak[c.String()] > plan.Peak[c] {
				return false
			}
		}
	}
	return true
}

// peakParts lists the three largest categories at the peak, and the rest.
func peakParts(m tensor.Usage) string {
	by := map[string]int64{}
	for c := range tensor.NumCategories {
		if c != tensor.Offloaded {
			by[c.String()] = m.AtPeak[c]
		}
	}
	var text []string
	rest := m.PeakTotal
	for _, name := range monitor.BySize(by) {
		if len(text) == 3 {
			break
		}
		text = append(text, name+" "+monitor.Bytes(by[name]))
		rest -= by[name]
	}
	if rest > 0 {
		text = append(text, "other "+monitor.Bytes(rest))
	}
	return strings.Join(text, ", ")
}

type trainReport struct {
	Schema          string             `json:"schema"`
	OutputDir       string             `json:"output_dir"`
	Model           string             `json:"model"`
	Metrics         string             `json:"metrics"`
	Parameters      int64              `json:"parameters"`
	World           int                `json:"world"`
	Strategy        string             `json:"strategy"`
	Steps           int64              `json:"steps"` // number of the last step
	Loss            *float64           `json:"loss"`  // of the last step
	EvalLoss        *float64           `json:"eval_loss"`
	TokensPerSecond float64            `json:"tokens_per_second"` // median of the steps
	Planned         map[string]int64   `json:"planned"`           // peak bytes of a rank by category, and total
	Memory          []train.RankMemory `json:"memory"`            // measured
	Seconds         float64            `json:"seconds"`           // from start to end
	Tokens          int64              `json:"tokens"`            // in that time
	StepSeconds     float64            `json:"step_seconds"`      // mean of the steps in that time
	StepSecondsStd  float64            `json:"step_seconds_std"`  // their standard deviation
	Best            *bestReport        `json:"best"`              // evaluation, or null
}

type bestReport struct {
	Step       int64    `json:"step"`
	Loss       *float64 `json:"eval_loss"`
	Accuracy   *float64 `json:"accuracy,omitempty"`
	Checkpoint string   `json:"checkpoint,omitempty"` // its directory, if it was kept
}

func (j *job) writeReport(ctx context.Context, w io.Writer, began time.Time) error {
	r := trainReport{
		Schema: "trireme.train/1", OutputDir: j.cfg.OutputDir, Model: filepath.Join(j.cfg.OutputDir, rundir.FinalModel),
		Metrics: filepath.Join(j.cfg.OutputDir, rundir.Metrics), Parameters: j.summary.Parameters,
		World: j.summary.Ranks, Strategy: j.summary.Strategy, Seconds: time.Since(began).Seconds(),
	}
	var err error
	if r.Memory, err = j.readMemory(); err != nil {
		return err
	}
	plan, err := j.plan(ctx)
	if err != nil {
		return err
	}
	r.Planned = plannedBytes(plan.Memory)
	records, err := readRunResult(j.cfg.OutputDir, began)
	if err != nil {
		return err
	}
	records.report(ctx, &r, j.cfg)
	return writeJSON(w, r)
}

// plannedBytes returns the peak bytes of a rank by category, and total.
func plannedBytes(m tensor.Usage) map[string]int64 {
	by := map[string]int64{"total": m.PeakTotal}
	for c := range tensor.NumCategories {
		by[c.String()] = m.Peak[c]
	}
	return by
}

// finite returns v, or nil if JSON cannot represent it.
func finite(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}

func finiteOrNil(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return finite(*v)
}
