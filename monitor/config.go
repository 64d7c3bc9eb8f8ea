package monitor

import "fmt"

// Config is the node `logging` of the configuration.
type Config struct {
	// LogEveryNSteps is how often the text line and TensorBoard get a step: at step 1, then
	// every n-th, and the last. metrics.jsonl and the live view have every step. Default 1.
	LogEveryNSteps int `yaml:"log_every_n_steps"`
	// TensorBoard writes event files to <output_dir>/tb. Default true.
	TensorBoard bool `yaml:"tensorboard"`
	// View is the live view: auto (on a terminal) | never. Default auto.
	View string `yaml:"view"`
}

// Default is the configuration of a file that says nothing.
func Default() Config { return Config{LogEveryNSteps: 1, TensorBoard: true, View: "auto"} }

// Validate checks the values.
func (c Config) Validate() error {
	switch {
	case c.LogEveryNSteps < 1:
		return fmt.Errorf("monitor: log_every_n_steps is %d: it must be at least 1", c.LogEveryNSteps)
	case c.View != "auto" && c.View != "never":
		return fmt.Errorf("monitor: view %q is not known: auto and never are", c.View)
	}
	return nil
}
