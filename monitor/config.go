package monitor

import (
	"trireme/fault"
)

// Config is the node `logging`: what is printed and recorded, and how often.
type Config struct {
	// LogEveryNSteps is how often a step is printed as a line and written to TensorBoard: step 1,
	// every n-th, and the last. metrics.jsonl and the live view have every step. Default 1.
	LogEveryNSteps int `yaml:"log_every_n_steps"`
	// TensorBoard writes event files to tb/ in the output directory. Default true.
	TensorBoard bool `yaml:"tensorboard"`
	// View is whether a terminal shows the live view instead of lines. One of auto | never. Default
	// auto.
	View ViewMode `yaml:"view"`
}

// ViewMode is when the live view is shown.
type ViewMode string

// The values of Config.View.
const (
	ViewAuto  ViewMode = "auto"
	ViewNever ViewMode = "never"
)

// Choices are the values.
func (ViewMode) Choices() []string { return []string{string(ViewAuto), string(ViewNever)} }

// Default is the configuration of a file that says nothing.
func Default() Config { return Config{LogEveryNSteps: 1, TensorBoard: true, View: ViewAuto} }

// Validate checks the values.
func (c Config) Validate() error {
	if c.LogEveryNSteps < 1 {
		return fault.At("log_every_n_steps", "is %d: it must be at least 1", c.LogEveryNSteps)
	}
	return nil
}
