package monitor

import (
	"trireme/fault"
)

// Config is the node `logging`: output and records of a run.
type Config struct {
	// LogEveryNSteps prints a line and writes to TensorBoard every n steps, and at the first and
	// last step. metrics.jsonl and the live view have every step. Default 1.
	LogEveryNSteps int `yaml:"log_every_n_steps"`
	// TensorBoard writes event files to tb/ in the output directory. Default true.
	TensorBoard bool `yaml:"tensorboard"`
	// View shows the live view instead of lines if the output is a terminal. One of auto | never.
	// Default auto.
	View ViewMode `yaml:"view"`
}

// ViewMode is when the live view is shown.
type ViewMode string

// Values of Config.View.
const (
	ViewAuto  ViewMode = "auto"
	ViewNever ViewMode = "never"
)

// Choices returns the allowed values.
func (ViewMode) Choices() []string { return []string{string(ViewAuto), string(ViewNever)} }

// Default returns the default configuration.
func Default() Config { return Config{LogEveryNSteps: 1, TensorBoard: true, View: ViewAuto} }

// Validate checks ranges.
func (c Config) Validate() error {
	if c.LogEveryNSteps < 1 {
		return fault.At("log_every_n_steps", "is %d: it must be at least 1", c.LogEveryNSteps)
	}
	return nil
}
