package train

import (
	"errors"

	"trireme/collective"
	"trireme/device"
	"trireme/model"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// Components is a model, the engine that divides it among ranks, and what makes steps of the two.
type Components struct {
	Model   model.Model
	Engine  *parallel.Engine
	Stepper *Stepper
}

// Ranks are those that divide a model.
type Ranks struct {
	parallel.Ranks
	Local int // on each machine; 0 is all
}

// buildOnDevice opens the device for a rank of world, local of them on this machine, and puts together
// there what the rank needs. plan is what memory it is to hold ready; nil: none.
func (cfg Config) buildOnDevice(world collective.World, local int, config *model.Config, positions int, plan *tensor.Usage, train bool) (device.Device, *Components, error) {
	b, err := cfg.Device.Open(world.Arena(), local, plan)
	if err != nil {
		return nil, nil, err
	}
	a, err := cfg.Build(b, config, positions, Ranks{Ranks: world, Local: local}, train)
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return b, a, nil
}

// Build puts together on a backend what one rank trains of a configuration, with rows of so
// many positions: a run does so on its device, and a plan where nothing is computed. Not to be
// trained, a model has no gradients and no optimizer state. The caller closes the engine.
func (cfg Config) Build(b tensor.Backend, config *model.Config, positions int, ranks Ranks, train bool) (*Components, error) {
	strategy, extents, err := cfg.Parallel.Resolve(ranks.Size(), ranks.Local)
	if err != nil {
		return nil, input(err)
	}
	precision, err := cfg.Precision.Types()
	if err != nil {
		return nil, input(err)
	}
	if err := cfg.Offload.CheckStrategy(strategy); err != nil {
		return nil, input(err)
	}
	m, err := config.Make(b, positions)
	if err != nil {
		return nil, input(err)
	}
	if err := cfg.Prepare(m); err != nil {
		return nil, input(err)
	}
	if !train {
		for _, p := range model.Params(m) {
			p.Frozen = true
		}
	}
	mesh, err := parallel.NewMesh(ranks, extents, cfg.Parallel.ReshardGroup(extents[parallel.Shard]))
	if err != nil {
		return nil, err
	}
	grouping, err := cfg.Training.grouping()
	if err == nil && train {
		err = grouping.Check(trained(m))
	}
	if err != nil {
		return nil, input(err)
	}
	e, err := parallel.New(b, mesh, m.Units(), parallel.Options{
		Strategy: strategy, WorldInvariant: cfg.Parallel.WorldInvariant, Precision: precision, Optim: grouping, AllGather: cfg.Parallel.AllGather(),
		Offload: cfg.Offload.WithDir(cfg.OutputDir),
	})
	if err != nil {
		return nil, err
	}
	s := NewStepper(b, m, e, cfg.Training.MaxGradNorm, cfg.Training.Seed)
	if scaler := cfg.Precision.scaler(cfg.Training.MaxTokens(positions)); scaler != nil && train {
		s.ScaleLoss(scaler, scaler.Start())
	}
	if train {
		if s.offload, err = cfg.Recompute.open(b, cfg.OutputDir); err != nil {
			return nil, errors.Join(input(err), e.Close())
		}
	}
	return &Components{Model: m, Engine: e, Stepper: s}, nil
}

// trained are the parameters that train, as optimizers see them.
func trained(m model.Model) (all []optim.Param) {
	for _, p := range model.Params(m) {
		if !p.Frozen {
			all = append(all, optim.Param{Name: p.Name, Shape: p.Shape})
		}
	}
	return all
}
