package train

import (
	"errors"
	"fmt"

	"trireme/fault"
	"trireme/model"
)

// Prepare applies what the configuration says of a model's units and parameters.
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
			return fault.Try(fmt.Errorf("train: model.freeze: no parameter is called %s; the first is %s", pattern, model.Params(m)[0].Name), "a name, or a beginning with * after it")
		}
	}
	for _, p := range model.Params(m) {
		if !p.Frozen {
			return nil
		}
	}
	return fault.Try(errors.New("train: model.freeze leaves nothing to train"), "fewer patterns")
}
