package verify

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Schema is the version of Report as JSON.
const Schema = "trireme.verify/1"

// Report is the result of a proof.
type Report struct {
	Schema  string  `json:"schema"`
	Equal   bool    `json:"equal"`  // every run equals the reference in every bit; those with a tolerance are within it
	Digest  string  `json:"digest"` // SHA-256 of the reference's weights and optimizer state after the last step
	Config  string  `json:"config"` // the configuration's file, or the recipe
	Model   string  `json:"model"`
	Command string  `json:"command"`
	Date    string  `json:"date"`    // UTC, RFC 3339
	Version string  `json:"version"` // of this program
	Machine Machine `json:"machine"`

	Device      string  `json:"device"`
	ParamDType  string  `json:"param_dtype"`
	RowsPerStep int     `json:"rows_per_step"`
	Epochs      Number  `json:"epochs"` // passes over the data after the last step
	Steps       []Step  `json:"steps"`  // of the reference
	Rows        []Row   `json:"rows"`   // the reference is the first
	Seconds     float64 `json:"seconds"`
}

// Machine describes the machine. The bits depend on its instructions.
type Machine struct {
	Processor     string `json:"processor"`
	Instructions  string `json:"instructions"`   // device.instructions
	Float32Matmul string `json:"float32_matmul"` // device.float32_matmul
	Cores         int    `json:"cores"`
	System        string `json:"system"` // operating system and architecture
}

// Row is a run of the table.
type Row struct {
	Kind    Kind        `json:"kind"`
	Differs string      `json:"differs"` // what it differs in; of the reference its ranks and strategy
	Result  Result      `json:"result"`
	First   *Difference `json:"first,omitempty"` // nil: none
	// Largest is the largest relative difference of a loss or gradient norm, Tolerance the limit; 0: every bit.
	Largest   Number  `json:"largest_difference"`
	Tolerance float64 `json:"tolerance"`
	Why       string  `json:"why,omitempty"` // why bits may differ
	Digest    string  `json:"digest"`
	Seconds   float64 `json:"seconds"`
}

// NewRow returns the row of a trial with an outcome.
func NewRow(t Trial, reference, got Outcome, seconds float64) Row {
	r := Row{Kind: t.Kind, Differs: t.Differs, Why: t.Why, Tolerance: t.Tolerance, Digest: got.Digest, Seconds: seconds}
	result, first, largest := Judge(t, reference, got)
	r.Result, r.First, r.Largest = result, first, Number(largest)
	return r
}

// Text is the result of a row in words.
func (r Row) Text() string {
	switch r.Result {
	case Equal:
		return string(Equal)
	case Within:
		return fmt.Sprintf("within %g: the largest difference is %.1e", r.Tolerance, float64(r.Largest))
	}
	text := "differs " + r.First.String()
	if r.Tolerance > 0 {
		text += fmt.Sprintf("; the largest difference is %.1e, more than %g", float64(r.Largest), r.Tolerance)
	}
	return text
}

// Finish sets the result from the rows.
func (r *Report) Finish(reference Outcome) {
	r.Schema, r.Steps, r.Digest, r.Equal = Schema, reference.Steps, reference.Digest, true
	for _, row := range r.Rows {
		r.Equal = r.Equal && row.Result != Differs
		r.Seconds += row.Seconds
	}
}

// tally counts rows by result.
func tally(rows []Row) (equal, within, differ int) {
	for _, row := range rows {
		switch row.Result {
		case Equal:
			equal++
		case Within:
			within++
		default:
			differ++
		}
	}
	return equal, within, differ
}

// Print writes the table for a terminal.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s; %s\n%s\n\n", r.Config, r.Model, r.experiment(), r.where())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "run\tresult\tdigest\tdiffers from the reference in")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", row.Kind, row.result(), short(row.Digest), row.Differs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, line := range r.conclusions() {
		fmt.Fprintln(w, line)
	}
	_, err := fmt.Fprintf(w, "digest of weights and optimizer state: %s\n", r.Digest)
	return err
}

// result is the text of a row's result; the reference has none.
func (r Row) result() string {
	if r.Kind == Reference {
		return "-"
	}
	return r.Text()
}

func (r Report) experiment() string {
	return fmt.Sprintf("%s of %s (%.3g epochs) in %s", count(len(r.Steps), "step"), count(r.RowsPerStep, "row"), float64(r.Epochs), r.ParamDType)
}

// rounding names what decides how operations round.
func (m Machine) rounding() string {
	return fmt.Sprintf("device.instructions %s and device.float32_matmul %s", m.Instructions, m.Float32Matmul)
}

// where says for which machines the bits hold.
func (r Report) where() string {
	if r.Machine.Instructions == "" {
		return fmt.Sprintf("device %s, %s, %s", r.Device, r.Machine.System, r.Version)
	}
	return fmt.Sprintf("%s, %s, %s, %s", r.Machine.Processor, r.Machine.rounding(), r.Machine.System, r.Version)
}

// conclusions are the sentences after the table.
func (r Report) conclusions() []string {
	equal, within, differ := tally(r.Rows[1:])
	all := len(r.Rows) - 1
	out := []string{fmt.Sprintf("%d of %s equal in every bit: the loss and the gradient norm of each step, the weights and the optimizer state after the last", equal, count(all, "run"))}
	if within > 0 {
		out = append(out, fmt.Sprintf("%d within a tolerance: %s", within, strings.Join(reasons(r.Rows, Within), "; ")))
	}
	if differ > 0 {
		line := fmt.Sprintf("not equal: %s", count(differ, "run"))
		if why := reasons(r.Rows, Differs); len(why) > 0 {
			line += " (" + strings.Join(why, "; ") + ")"
		}
		out = append(out, line)
	}
	if r.Machine.Instructions != "" {
		out = append(out, fmt.Sprintf("these are the bits of %s: others round differently", r.Machine.rounding()))
	}
	return out
}

// reasons lists why rows with a result may differ, each once.
func reasons(rows []Row, of Result) (out []string) {
	seen := map[string]bool{"": true}
	for _, row := range rows {
		if row.Result == of && !seen[row.Why] {
			seen[row.Why] = true
			out = append(out, row.Why)
		}
	}
	return out
}
