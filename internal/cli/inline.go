package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"trireme/fault"
	"trireme/internal/conf"
	"trireme/model"
	"trireme/tensor"
)

// readModel reads config.json or model.inline.
func (j *job) readModel() (*model.Config, error) {
	config, err := j.cfg.ReadModel(families)
	if len(j.cfg.Model.Inline) == 0 {
		return config, err
	}
	if err != nil {
		return nil, inlineError(err, j.origins)
	}
	made := config.Family.New
	config.Family.New = func(b tensor.Backend, text []byte, positions int) (model.Model, error) {
		m, err := made(b, text, positions)
		return m, inlineError(err, j.origins)
	}
	return config, nil
}

// inlineError prefixes an error with the position of its key in model.inline.
func inlineError(err error, origins conf.Origins) error {
	if err == nil {
		return nil
	}
	where := cmp.Or(origins["model.inline.architectures"], origins["model.inline"])
	var at *fault.Error
	if errors.As(err, &at) {
		for key := at.Key(); key != ""; key = key[:max(0, strings.LastIndexByte(key, '.'))] {
			if origin, ok := origins["model.inline."+key]; ok {
				where = origin
				break
			}
		}
	}
	if where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}
