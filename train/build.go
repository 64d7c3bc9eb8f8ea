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

// Components are the parts of one training rank.
type Components struct {
	Model   model.Model
	Engine  *parallel.Engine
	Stepper *Stepper
	// snapshot is the memory of checkpoints that are written in the background; nil for none.
	snapshot []byte
}

// Ranks are the ranks a model is sharded over.
type Ranks struct {
	parallel.Ranks
	Local int // on each machine; 0 is all
}

// buildOnDevice builds the components on a device, which it closes after an error. local is the number of
// ranks on this machine.
func (cfg Config) buildOnDevice(b device.Device, world collective.World, local int, config *model.Config, positions int, train bool) (*Components, error) {
	a, err := cfg.Build(b, config, positions, Ranks{Ranks: device.World(b, world), Local: local}, train)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return a, nil
}

// Build makes one rank's components on a backend, for rows of up to positions tokens. If train is
// false, there are no gradients and no optimizer state. The caller closes Engine and Stepper.
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
	if err := cfg.Offload.CheckBackend(b); err != nil {
		return nil, input(err)
	}
	e, err := parallel.New(b, mesh, m.Units(), parallel.Options{
		Strategy: strategy, WorldInvariant: cfg.Parallel.WorldInvariant, Precision: precision, Optim: grouping, AllGather: cfg.Parallel.AllGather(), Hold: cfg.Device.Name.Accelerator(),
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
	a := &Components{Model: m, Engine: e, Stepper: s}
	if train {
		a.snapshot = cfg.snapshot(b, e)
		if cfg.Checkpoint.MemoryEveryNSteps() > 0 { // one is written while another stays
			b.Meter().Add(tensor.Checkpoints, 2*e.SaveShare())
		}
	}
	return a, nil
}

// snapshot allocates the copy of checkpoint.async: on the device if that is the host, else beside it.
func (cfg Config) snapshot(b tensor.Backend, e *parallel.Engine) []byte {
	if !cfg.Checkpoint.Async {
		return nil
	}
	n := e.SaveShare()
	if most := int64(cfg.Checkpoint.AsyncMemory); most > 0 {
		n = min(n, most)
	}
	if tensor.Static(b) && !tensor.IsMeta(b) {
		return make([]byte, n)
	}
	if n == 0 {
		return nil
	}
	buf := b.New(tensor.Snapshot, tensor.U8, int(n))
	if tensor.IsMeta(b) {
		return nil
	}
	return tensor.HostBytes(buf)
}

func trained(m model.Model) (all []optim.Param) {
	for _, p := range model.Params(m) {
		if !p.Frozen {
			all = append(all, optim.Param{Name: p.Name, Shape: p.Shape})
		}
	}
	return all
}
