package train

import (
	"errors"
	"fmt"

	"trireme/fault"
	"trireme/model"
)

// Prepare applies activation_checkpointing and model.freeze to a model.
func (cfg Config) Prepare(m model.Model) error {
	recompute := cfg.Recompute
	recompute.Enabled = recompute.Enabled && !recompute.delayed()
	recompute.Apply(m.Units())
	for _, pattern := range cfg.Model.Freeze {
		found := false
		for _, p := range model.Params(m) {
			if matches(pattern, p.Name) {
				p.Frozen, found = true, true
			}
		}
		if !found {
			return fault.Try(fmt.Errorf("train: model.freeze: no parameter matches %s; the first is named %s", pattern, model.Params(m)[0].Name), "a name, or a prefix that ends in *")
		}
	}
	for _, p := range model.Params(m) {
		if !p.Frozen {
			return nil
		}
	}
	return fault.Try(errors.New("train: model.freeze freezes all parameters"), "fewer patterns")
}
