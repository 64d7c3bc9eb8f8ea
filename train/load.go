package train

import (
	"errors"
	"path/filepath"

	"trireme/checkpoint/safetensors"
	"trireme/collective"
	"trireme/device"
	"trireme/model"
	"trireme/parallel"
)

// Loaded is a model with its weights, to be read and not trained.
type Loaded struct {
	Model   model.Model
	Backend device.Device
	world   collective.World
	engine  *parallel.Engine
}

// LoadModel reads a Hugging Face directory, for sequences as long as the model allows, into
// this process alone. Close gives it back.
func LoadModel(families model.Registry, dir string, c device.Config) (_ *Loaded, err error) {
	config, err := families.ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, input(err)
	}
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		return nil, err
	}
	l := &Loaded{world: worlds[0]}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.Backend, err = c.Open(nil, 1, nil); err != nil {
		return nil, err
	}
	if l.Model, err = config.Make(l.Backend, 0); err != nil {
		return nil, input(err)
	}
	for _, p := range model.Params(l.Model) {
		p.Frozen = true
	}
	files, err := safetensors.OpenModel(dir)
	if err != nil {
		return nil, input(err)
	}
	defer files.Close()
	w, err := ModelConfig{}.match(l.Model, config, files)
	if err == nil {
		err = w.whole()
	}
	if err != nil {
		return nil, input(err)
	}
	mesh, err := collective.NewMesh(l.world, 1, 1)
	if err != nil {
		return nil, err
	}
	groups := parallel.Groups{World: mesh.World, Shard: mesh.ShardGroup, Replicate: mesh.ReplicateGroup}
	if l.engine, err = parallel.New(l.Backend, groups, l.Model.Units(), parallel.Options{Strategy: parallel.Strategy{Name: "no_shard"}, WorldInvariant: true}); err != nil {
		return nil, err
	}
	return l, w.load(l.Backend, l.engine, 0)
}

// Close gives back the model's memory and what it keeps running.
func (l *Loaded) Close() error {
	var errs []error
	if l.engine != nil {
		errs = append(errs, l.engine.Close())
	}
	if l.Backend != nil {
		errs = append(errs, l.Backend.Close())
	}
	return errors.Join(append(errs, l.world.Close())...)
}
