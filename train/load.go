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
	"trireme/nn"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// LoadedModel is a model with weights, for inference.
type LoadedModel struct {
	Model   model.Model
	Backend device.Device
	DType   tensor.DType // of activations and of generate's KV cache
	as      WeightType
	config  *model.Config
	world   collective.World
	engine  *parallel.Engine
}

// LoadModel loads a Hugging Face directory into this process, for sequences up to the model's maximum
// length.
func LoadModel(families model.Registry, dir string, c device.Config, as WeightType) (*LoadedModel, error) {
	config, err := families.ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, input(err)
	}
	return load(config, c, as, func(l *LoadedModel) error {
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
		if err := w.load(l.Backend, l.engine, 0); err != nil {
			return err
		}
		return l.quantize(func(p *nn.Param, row int, dst *tensor.Tensor) error {
			return input(files.ReadAs(w.from[p.Name].Name, tensor.F32, row*dst.Width(), dst.Elems(), tensor.HostBytes(dst)))
		})
	})
}

// LoadCheckpoint loads the parameters of a checkpoint into a model made from config. It verifies all
// checksums.
func LoadCheckpoint(ctx context.Context, config *model.Config, dir string, c device.Config, as WeightType) (*LoadedModel, error) {
	return loadState(ctx, config, dir, c, as, checkpoint.Param)
}

// LoadAverage is LoadCheckpoint for the average of the weights (training.ema). Frozen parameters have none and are
// loaded as they are.
func LoadAverage(ctx context.Context, config *model.Config, dir string, c device.Config, as WeightType) (*LoadedModel, error) {
	return loadState(ctx, config, dir, c, as, optim.AverageSlot)
}

// loadState loads the state of a kind in place of each parameter that has it.
func loadState(ctx context.Context, config *model.Config, dir string, c device.Config, as WeightType, kind string) (*LoadedModel, error) {
	return load(config, c, as, func(l *LoadedModel) error {
		s, err := openState(dir, kind)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.loadHeld(ctx, l.Backend, l.engine); err != nil {
			return err
		}
		return l.quantize(func(p *nn.Param, row int, dst *tensor.Tensor) error {
			rows := tensor.Box{Offsets: []int{row, 0}, Sizes: []int{dst.Rows(), dst.Width()}}
			it := s.item(tensor.Shard{Name: p.Name, DType: tensor.F32, Shape: p.Shape, Box: rows, Data: dst})
			return input(s.Load(ctx, []checkpoint.Item{it}, checkpoint.LoadOptions{}))
		})
	})
}

// loadParams loads this rank's parameters from a checkpoint, or the state of another kind in place of each that has it.
func loadParams(ctx context.Context, b tensor.Backend, e *parallel.Engine, dir, kind string) error {
	s, err := openState(dir, kind)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.loadHeld(ctx, b, e)
}

// savedState is the state of one kind in a checkpoint, for the parameters that have it.
type savedState struct {
	*checkpoint.Checkpoint
	kind string
	has  map[string]bool
}

func openState(dir, kind string) (*savedState, error) {
	c, err := checkpoint.Open(dir)
	if err != nil {
		return nil, input(err)
	}
	s := &savedState{c, kind, map[string]bool{}}
	for _, t := range c.Tensors() {
		if t.Kind == kind {
			s.has[t.Name] = true
		}
	}
	if len(s.has) == 0 {
		return nil, errors.Join(input(fmt.Errorf("train: %s has no state %q", dir, kind)), c.Close())
	}
	return s, nil
}

// item is the state to load in place of a shard of a parameter: that parameter's own values if it has no other.
func (s *savedState) item(of tensor.Shard) checkpoint.Item {
	if s.has[of.Name] {
		return checkpoint.Item{Kind: s.kind, Shard: of}
	}
	return checkpoint.Item{Kind: checkpoint.Param, Shard: of}
}

func (s *savedState) loadHeld(ctx context.Context, b tensor.Backend, e *parallel.Engine) error {
	var items []checkpoint.Item
	for _, of := range e.HeldParams() {
		items = append(items, s.item(of))
	}
	return input(s.Load(ctx, items, checkpoint.LoadOptions{Device: b, Convert: true}))
}

// load makes a model in this process; fill loads its parameters.
func load(config *model.Config, c device.Config, as WeightType, fill func(*LoadedModel) error) (_ *LoadedModel, err error) {
	if err := as.check(c.Name); err != nil {
		return nil, input(err)
	}
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		return nil, err
	}
	l := &LoadedModel{world: worlds[0], DType: as.activations(), as: as, config: config}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.Backend, err = c.Open(device.Process{}, l.world.Arena(), 1, nil); err != nil {
		return nil, err
	}
	if l.Model, err = config.Make(l.Backend, 0); err != nil {
		return nil, input(err)
	}
	if err := as.apply(l.Model, config); err != nil {
		return nil, input(err)
	}
	mesh, err := parallel.NewMesh(device.World(l.Backend, l.world), parallel.MeshShape{}, 0)
	if err != nil {
		return nil, err
	}
	if l.engine, err = parallel.New(l.Backend, mesh, l.Model.Units(), parallel.Options{Precision: parallel.Precision{Param: l.DType}, NoMasters: true}); err != nil {
		return nil, err
	}
	return l, fill(l)
}

// Export writes the model as a Hugging Face directory, as Run.Export does, in the type and the size of files of
// cfg.Export. Names of classes are those of config.json. The model must be loaded as Float32.
func (l *LoadedModel) Export(ctx context.Context, dir string, cfg Config, tokenizers ...string) error {
	if l.as != Float32 {
		return fmt.Errorf("train: a model loaded as %s cannot be exported", l.as)
	}
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
