package monitor

import (
	"errors"

	"trireme/fault"
)

// Config is the node `logging`: output and records of a run.
type Config struct {
	// LogEveryNSteps prints a line and writes to TensorBoard every n steps, and at the first and
	// last step. metrics.jsonl and the live view have every step. Default 1.
	LogEveryNSteps int `yaml:"log_every_n_steps"`
	// TensorBoard writes event files to tb/ in the output directory. Default true.
	TensorBoard bool `yaml:"tensorboard"`
	// RotateBytes is the size in bytes at which metrics.jsonl becomes metrics-000001.jsonl and so on, and a new
	// file begins. 0 keeps one file. Default 268435456.
	RotateBytes int64 `yaml:"rotate_bytes"`
	// Alerts are rules that call a command or a webhook. Default [].
	Alerts []Alert `yaml:"alerts"`
	// View shows the live view instead of lines if the output is a terminal. One of auto | never.
	// Default auto.
	View ViewMode `yaml:"view"`
	// HistogramsEveryNSteps writes histograms of each trained parameter and of its mean gradient to
	// TensorBoard and W&B every n steps. 0 writes none. Default 0.
	HistogramsEveryNSteps int `yaml:"histograms_every_n_steps"`
	// WallClockBreakdown prints the split of the step's time every log_every_n_steps steps, the mean
	// since the line before. Default false.
	WallClockBreakdown bool `yaml:"wall_clock_breakdown"`
	// CommsTable prints at the end of the run, for each collective and mesh axis, the number of calls,
	// the bytes, the time and the bandwidth of rank 0. Default false.
	CommsTable bool `yaml:"comms_table"`
	// FLOPsProfileStep prints the FLOPs, the time and the FLOP rate of this step. 0 prints none.
	// Default 0.
	FLOPsProfileStep int `yaml:"flops_profile_step"`
	// CSV writes a file csv/NAME.csv in the output directory for each number of a record, with
	// columns step and value. Default false.
	CSV        bool       `yaml:"csv"`
	WandB      WandB      `yaml:"wandb"`
	MLflow     MLflow     `yaml:"mlflow"`
	Trackio    Trackio    `yaml:"trackio"`
	Prometheus Prometheus `yaml:"prometheus"`
	OTLP       OTLP       `yaml:"otlp"`
}

// minRotate is the least RotateBytes: smaller files would be many.
const minRotate = 1 << 16

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
func Default() Config {
	return Config{LogEveryNSteps: 1, TensorBoard: true, View: ViewAuto, RotateBytes: 256 << 20, WandB: WandB{Mode: WandBOff}}
}

// Validate checks ranges.
func (c Config) Validate() error {
	atLeast := func(key string, v, least int) error {
		if v < least {
			return fault.At(key, "is %d: it must be at least %d", v, least)
		}
		return nil
	}
	if c.RotateBytes != 0 && c.RotateBytes < minRotate {
		return fault.At("rotate_bytes", "is %d: it must be 0 or at least %d", c.RotateBytes, minRotate)
	}
	return errors.Join(atLeast("log_every_n_steps", c.LogEveryNSteps, 1), atLeast("histograms_every_n_steps", c.HistogramsEveryNSteps, 0), atLeast("flops_profile_step", c.FLOPsProfileStep, 0))
}
