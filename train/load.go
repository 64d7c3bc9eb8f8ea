package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/collective"
	"trireme/device"
	"trireme/model"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// LoadedModel is a model with weights, for inference.
type LoadedModel struct {
	Model   model.Model
	Backend device.Device
	config  *model.Config
	world   collective.World
	engine  *parallel.Engine
}

// LoadModel loads a Hugging Face directory into this process, for sequences up to the model's maximum
// length.
func LoadModel(families model.Registry, dir string, c device.Config) (*LoadedModel, error) {
	config, err := families.ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, input(err)
	}
	return load(config, c, func(l *LoadedModel) error {
		files, err := safetensors.OpenModel(dir)
		if err != nil {
			return input(err)
		}
		defer files.Close()
		w, err := ModelConfig{}.match(l.Model, config, files)
		if err == nil {
			err = errors.Join(w.complete(), ModelConfig{}.checkTied(w))
		}
		if err != nil {
			return input(err)
		}
		return w.load(l.Backend, l.engine, 0)
	})
}

// LoadCheckpoint loads the parameters of a checkpoint into a model made from config. It verifies all
// checksums.
func LoadCheckpoint(ctx context.Context, config *model.Config, dir string, c device.Config) (*LoadedModel, error) {
	return load(config, c, func(l *LoadedModel) error { return loadParams(ctx, l.Backend, l.engine, dir, checkpoint.Param) })
}

// LoadAverage is LoadCheckpoint for the average of the weights (training.ema). Frozen parameters have none and are
// loaded as they are.
func LoadAverage(ctx context.Context, config *model.Config, dir string, c device.Config) (*LoadedModel, error) {
	return load(config, c, func(l *LoadedModel) error { return loadParams(ctx, l.Backend, l.engine, dir, optim.AverageSlot) })
}

// loadParams loads this rank's parameters from a checkpoint, or the state of another kind in place of each that has it.
func loadParams(ctx context.Context, b tensor.Backend, e *parallel.Engine, dir, kind string) error {
	c, err := checkpoint.Open(dir)
	if err != nil {
		return input(err)
	}
	defer c.Close()
	has := map[string]bool{}
	for _, t := range c.Tensors() {
		if t.Kind == kind {
			has[t.Name] = true
		}
	}
	if len(has) == 0 {
		return input(fmt.Errorf("train: %s has no state %q", dir, kind))
	}
	var items []checkpoint.Item
	for _, s := range e.HeldParams() {
		it := checkpoint.Item{Kind: checkpoint.Param, Shard: s}
		if has[s.Name] {
			it.Kind = kind
		}
		items = append(items, it)
	}
	return input(c.Load(ctx, items, checkpoint.LoadOptions{Device: b}))
}

// load makes a model in this process; fill loads its parameters.
func load(config *model.Config, c device.Config, fill func(*LoadedModel) error) (_ *LoadedModel, err error) {
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		return nil, err
	}
	l := &LoadedModel{world: worlds[0]}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	cfg := Default()
	cfg.Parallel.Strategy, cfg.Device = "no_shard", c
	b, err := cfg.Device.Open(device.Process{}, l.world.Arena(), 1, nil)
	if err != nil {
		return nil, err
	}
	a, err := cfg.buildOnDevice(b, l.world, 1, config, 0, false)
	if err != nil {
		return nil, err
	}
	l.Model, l.Backend, l.config, l.engine = a.Model, b, config, a.Engine
	return l, fill(l)
}

// Export writes the model as a Hugging Face directory, as Run.Export does, in the type and the size of files of
// cfg.Export. Names of classes are those of config.json.
func (l *LoadedModel) Export(ctx context.Context, dir string, cfg Config, tokenizers ...string) error {
	dt, err := cfg.exportDType(l.config)
	if err != nil {
		return input(err)
	}
	owned := l.engine.OwnedParams()
	if err := checkpoint.CheckFinite(ctx, owned, checkpoint.SingleProcess{}, l.Backend); err != nil {
		return fmt.Errorf("train: no model is exported: %w", err)
	}
	files := modelFiles{config: l.config, info: l.Model.Info(), path: cfg.Model.Path, tokenizers: tokenizers}
	if err := files.write(dir, dt); err != nil {
		return err
	}
	entries, shards := exported(model.Params(l.Model), owned, dt)
	o := checkpoint.ExportOptions{MaxShardSize: int64(cfg.Export.MaxShardSize), Device: l.Backend}
	return checkpoint.Export(ctx, dir, entries, shards, checkpoint.SingleProcess{}, o)
}

// Close frees the model's memory and stops its goroutines.
func (l *LoadedModel) Close() error {
	var errs []error
	if l.engine != nil {
		errs = append(errs, l.engine.Close())
	}
	if l.Backend != nil {
		errs = append(errs, l.Backend.Close())
	}
	return errors.Join(append(errs, l.world.Close())...)
}
