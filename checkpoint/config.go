package checkpoint

import "fmt"

// Config is the node checkpoint of a run's configuration.
type Config struct {
	// SaveEveryNSteps saves after every so many optimizer steps; 0 saves only at the end.
	SaveEveryNSteps int `yaml:"save_every_n_steps"`
	// SaveEveryNEpochs is the same in epochs, or parts of one; in place of save_every_n_steps.
	SaveEveryNEpochs float64 `yaml:"save_every_n_epochs"`
	// KeepLastN keeps the newest so many checkpoints and deletes older ones after a save; 0
	// keeps all.
	KeepLastN int `yaml:"keep_last_n"`
	// StateDictType is how tensors lie on disk: sharded, one file a rank, or full, one file
	// with whole tensors. Both load into any world. Empty is sharded.
	StateDictType string `yaml:"state_dict_type"`
	// Dir is where checkpoints go, one directory step-N each; empty is checkpoints in the
	// output directory. All ranks must see the same directory.
	Dir string `yaml:"dir"`
}

// The values of Config.StateDictType.
const (
	Sharded = "sharded"
	Full    = "full"
)

// Validate says what is wrong with the values, key by key.
func (c Config) Validate() error {
	switch {
	case c.SaveEveryNSteps < 0:
		return fmt.Errorf("checkpoint: save_every_n_steps is %d; it counts steps from 1, and 0 saves only at the end", c.SaveEveryNSteps)
	case !(c.SaveEveryNEpochs >= 0):
		return fmt.Errorf("checkpoint: save_every_n_epochs is %v: it must not be negative", c.SaveEveryNEpochs)
	case c.SaveEveryNSteps > 0 && c.SaveEveryNEpochs > 0:
		return fmt.Errorf("checkpoint: save_every_n_steps %d and save_every_n_epochs %v. try: one of them", c.SaveEveryNSteps, c.SaveEveryNEpochs)
	case c.KeepLastN < 0:
		return fmt.Errorf("checkpoint: keep_last_n is %d; it counts checkpoints from 1, and 0 keeps all", c.KeepLastN)
	case c.StateDictType != "" && c.StateDictType != Sharded && c.StateDictType != Full:
		return fmt.Errorf("checkpoint: state_dict_type is %q; it is %s or %s", c.StateDictType, Sharded, Full)
	}
	return nil
}
