package main

import (
	"encoding/json"
	"os"
)

// report is the JSON file. Parts that did not run are absent; Error is why a part or a run ended early.
type report struct {
	Schema      string         `json:"schema"`
	Began       string         `json:"began"`
	Seconds     float64        `json:"seconds"`
	Device      string         `json:"device"`
	Small       bool           `json:"small,omitempty"`
	Environment *environment   `json:"environment,omitempty"`
	Golden      *goldenReport  `json:"golden,omitempty"`
	Conformance *conformance   `json:"conformance,omitempty"`
	Curve       *curveReport   `json:"curve,omitempty"`
	Speed       []*speedReport `json:"speed,omitempty"`
}

type environment struct {
	Commit  string         `json:"commit,omitempty"`
	Python  map[string]any `json:"python,omitempty"`  // versions of Python and its packages
	Devices map[string]any `json:"devices,omitempty"` // of trireme doctor devices
	Errors  []string       `json:"errors,omitempty"`
}

type goldenReport struct {
	Passed  int           `json:"passed"`
	Failed  int           `json:"failed"`
	Skipped int           `json:"skipped"`
	Cases   []*goldenCase `json:"cases"`
	Error   string        `json:"error,omitempty"`
}

// goldenCase is a reference run. Deviations are relative, the worst over its steps.
type goldenCase struct {
	Name     string   `json:"name"`
	DType    string   `json:"dtype"`
	Result   string   `json:"result"` // PASS, FAIL, SKIP, or "unfinished"
	Steps    int      `json:"steps,omitempty"`
	Loss     *float64 `json:"loss_deviation,omitempty"`
	GradNorm *float64 `json:"grad_norm_deviation,omitempty"`
	Messages []string `json:"messages,omitempty"` // of a case that did not pass
}

// conformance has the operations that were compared with the specification.
type conformance struct {
	Passed   int      `json:"passed"`
	Failed   []string `json:"failed,omitempty"`
	Messages []string `json:"messages,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// curveReport compares losses of the device with those of cpu. Deviations are relative.
type curveReport struct {
	Config string     `json:"config"`
	Steps  int        `json:"steps"` // compared
	CPU    *curveRun  `json:"cpu,omitempty"`
	Runs   []curveRun `json:"device"`
	First  *float64   `json:"loss_first_deviation,omitempty"`
	Last   *float64   `json:"loss_last_deviation,omitempty"`
	Error  string     `json:"error,omitempty"`
}

type curveRun struct {
	Steps     int     `json:"steps"`
	LossFirst float64 `json:"loss_first"`
	LossLast  float64 `json:"loss_last"`
	StepMS    float64 `json:"step_ms"`
}

// speedReport has the runs of one configuration.
type speedReport struct {
	Config  string             `json:"config"`
	DType   string             `json:"dtype"`
	Medians map[string]figures `json:"medians"` // by program
	// Ratios are medians over rounds of trireme's tokens_per_s by the peer's.
	Ratios map[string]float64 `json:"ratios"`
	Runs   []*speedRun        `json:"runs"`
}

// figures are those of a program. MFU of a peer counts the operations that trireme counts.
type figures struct {
	TokensPerS    float64  `json:"tokens_per_s"`
	MFU           *float64 `json:"mfu,omitempty"`
	DevicePeakMiB float64  `json:"device_peak_mib"`
	FirstStepS    float64  `json:"first_step_s"`                  // compiled anew, of the first run
	CachedStepS   float64  `json:"cached_first_step_s,omitempty"` // median of later runs
}

type speedRun struct {
	Program string         `json:"program"` // a name of programs
	Round   int            `json:"round"`
	Cached  bool           `json:"cached,omitempty"` // a start only for its first step
	Output  map[string]any `json:"output,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// write replaces the report file.
func (h *harness) write() error {
	b, err := json.MarshalIndent(h.report, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(h.out+".part", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(h.out+".part", h.out)
}
