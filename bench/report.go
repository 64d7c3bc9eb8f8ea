package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

const schema = "trireme.bench.peers/1"

// results are the content of a file of -json.
type results struct {
	Schema       string           `json:"schema"`
	Date         string           `json:"date"`
	Command      string           `json:"command"`
	Processor    processor        `json:"processor"`
	PyTorch      string           `json:"pytorch,omitempty"` // version
	Instructions []instructionSet `json:"instructions"`
	Tables       []*table         `json:"tables"`
}

// instructionSet is a value of -instructions, and the sets that both programs select.
type instructionSet struct {
	Name    string `json:"name"`
	Trireme string `json:"trireme"`
	PyTorch string `json:"pytorch,omitempty"`
}

// table compares trireme with another program.
type table struct {
	Title        string   `json:"title"`
	OurName      string   `json:"ours"`
	TheirName    string   `json:"theirs"`
	Comparison   string   `json:"comparison"`
	DType        string   `json:"dtype,omitempty"`
	Peer         string   `json:"peer,omitempty"` // eager or compiled
	Instructions string   `json:"instructions,omitempty"`
	Products     string   `json:"float32_matmul,omitempty"`
	Rows         []row    `json:"rows"`
	Notes        []string `json:"notes,omitempty"`
}

// row is a figure of both programs in each pair of runs.
type row struct {
	Figure  string    `json:"figure"`
	Metric  string    `json:"metric"`
	Config  string    `json:"config,omitempty"`  // of step and ranks
	Threads string    `json:"threads,omitempty"` // of step
	Ours    []float64 `json:"ours"`
	Theirs  []float64 `json:"theirs"`
}

// load reads a file of -json.
func load(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Schema != schema {
		return nil, fmt.Errorf("%s: its schema is %q, not %s. try: a file written with -json", file, r.Schema, schema)
	}
	for _, t := range r.Tables {
		if t == nil {
			return nil, fmt.Errorf("%s: a table is null", file)
		}
		for _, w := range t.Rows {
			if len(w.Ours) == 0 || len(w.Ours) != len(w.Theirs) {
				return nil, fmt.Errorf("%s: %s: %d and %d runs are not pairs", file, w.Figure, len(w.Ours), len(w.Theirs))
			}
		}
	}
	return &r, nil
}

func (r *results) save(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// print writes everything as Markdown.
func (r *results) print(w io.Writer) {
	r.head(w)
	for _, t := range r.Tables {
		if len(t.Rows) > 0 {
			t.print(w)
		}
	}
}

// head writes what was measured, where, when and how.
func (r *results) head(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n`%s`\n", r.setting(), r.Command)
}

// setting describes the machine and the programs in a line.
func (r *results) setting() string {
	return strings.Join(append([]string{r.Processor.String()}, r.versions()...), "; ")
}

// versions describes the programs and the date.
func (r *results) versions() []string {
	var ours, theirs []string
	for _, s := range r.Instructions {
		ours = append(ours, s.Trireme)
		if s.PyTorch != "" {
			theirs = append(theirs, s.PyTorch)
		}
	}
	out := []string{"trireme with " + strings.Join(ours, ", ")}
	if r.PyTorch != "" {
		t := "PyTorch " + r.PyTorch
		if len(theirs) > 0 {
			t += " with " + strings.Join(theirs, ", ")
		}
		out = append(out, t)
	}
	return append(out, r.Date)
}

func (p processor) String() string {
	s := p.Name
	if p.Family != "" && p.Model != "" {
		s += fmt.Sprintf(" (family %s, model %s)", p.Family, p.Model)
	}
	return s + ", " + count(strconv.Itoa(p.Cores), "core")
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n### %s\n\n| figure | %s | %s | ratio | pairs |\n|---|---|---|---|---|\n", t.Title, t.OurName, t.TheirName)
	for _, r := range t.Rows {
		r.print(w)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(w, "\n%s\n", n)
	}
}

func (r row) print(w io.Writer) {
	ratios := make([]string, len(r.Ours))
	for i, v := range r.ratios() {
		ratios[i] = strconv.FormatFloat(v, 'f', 2, 64)
	}
	fmt.Fprintf(w, "| %s | %s | %s | %.2f | %s |\n", r.Figure, format(median(r.Ours)), format(median(r.Theirs)), median(r.ratios()), strings.Join(ratios, " "))
}

// format writes four digits, and all digits before the point.
func format(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func (r row) ratios() []float64 {
	out := make([]float64, len(r.Ours))
	for i := range out {
		out[i] = r.Ours[i] / r.Theirs[i]
	}
	return out
}

// median returns the median of v, which has an element.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
