package train

import "trireme/internal/conf"

// Load reads the configuration in a YAML file over Default, then the assignments, each PATH=VALUE as
// in training.learning_rate=3e-5. The error lists every unknown key and invalid value with its line.
// Model names and data sets on the hub are not resolved; package hub downloads them.
func Load(path string, assignments ...string) (Config, error) {
	sources := []conf.Source{conf.File(path)}
	for _, a := range assignments {
		sources = append(sources, conf.Set("assignment", a))
	}
	loaded, err := conf.Load(Default(), sources...)
	if err != nil {
		return Config{}, err
	}
	return loaded.Value, nil
}
