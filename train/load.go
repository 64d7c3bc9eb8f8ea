package train

import (
	"path/filepath"

	"trireme/checkpoint/safetensors"
	"trireme/collective"
	"trireme/model"
	"trireme/parallel"
	"trireme/tensor"
)

// Loaded is a model with its weights, to be read and not trained.
type Loaded struct {
	Model  model.Model
	engine *parallel.Engine
}

// LoadModel reads a Hugging Face directory, for sequences as long as the model allows. The
// weights are whole on each rank of the world.
func LoadModel(b tensor.Backend, w collective.World, families model.Registry, dir string) (*Loaded, error) {
	c, err := families.ReadConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	m, err := c.Make(b, 0)
	if err != nil {
		return nil, err
	}
	for _, p := range model.Params(m) {
		p.Frozen = true
	}
	mesh, err := collective.NewMesh(w, 1, w.Size())
	if err != nil {
		return nil, err
	}
	files, err := safetensors.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	groups := parallel.Groups{World: mesh.World, Shard: mesh.ShardGroup, Replicate: mesh.ReplicateGroup}
	e := parallel.New(b, groups, m.Units(), parallel.Strategy{Name: "no_shard"}, true)
	if err := loadWeights(e, files); err != nil {
		e.Close()
		return nil, err
	}
	return &Loaded{m, e}, nil
}

// Close ends what the loaded model keeps running.
func (l *Loaded) Close() { l.engine.Close() }
