package parallel_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/nn"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// The parameters of a unit whose first matrix is divided by columns and whose second by rows, as a
// pair of projections is, here of sizes that do not divide evenly.
func placed() []*nn.Unit {
	std := nn.Init{Kind: nn.Normal, Std: 0.5}
	return []*nn.Unit{
		{Name: "mlp", Params: []*nn.Param{
			nn.NewParam("up.weight", std, 13, 11),
			nn.NewParam("up.bias", nn.Init{Kind: nn.Normal, Std: 1, Zero: [2]int{3, 5}}, 11),
			nn.NewParam("down.weight", std, 11, 29),
		}},
		{Name: "norm", Params: []*nn.Param{nn.NewParam("norm.weight", std, 70)}},
	}
}

// arrangement is a division of the parameters of placed.
type arrangement struct {
	mesh     parallel.MeshShape
	place    parallel.Placements
	strategy string
	full     bool // one file with whole tensors
}

func (a arrangement) ranks() int {
	n := 1
	for _, extent := range a.mesh {
		n *= max(1, extent)
	}
	return n
}

var (
	// By columns and rows.
	tensors = parallel.Placements{"up.weight": {parallel.Tensor: 1}, "up.bias": {parallel.Tensor: 0}, "down.weight": {parallel.Tensor: 0}}
	// By rows and columns.
	swapped = parallel.Placements{"up.weight": {parallel.Tensor: 0}, "down.weight": {parallel.Tensor: 1}}
	// In both dimensions, and one dimension twice.
	experts = parallel.Placements{"up.weight": {parallel.Tensor: 1, parallel.Expert: 0}, "down.weight": {parallel.Tensor: 0, parallel.Expert: 0}}

	arrangements = []arrangement{
		{parallel.MeshShape{parallel.Shard: 2, parallel.Tensor: 2}, tensors, "full_shard", false},
		{parallel.MeshShape{}, nil, "full_shard", false},
		{parallel.MeshShape{parallel.Shard: 3}, nil, "zero_1", false},
		{parallel.MeshShape{parallel.Tensor: 3}, swapped, "no_shard", false},
		{parallel.MeshShape{parallel.Tensor: 4}, tensors, "full_shard", false},
		{parallel.MeshShape{parallel.Shard: 2, parallel.Tensor: 2}, swapped, "zero_1", true},
		{parallel.MeshShape{parallel.Replicate: 2, parallel.Tensor: 2}, tensors, "hybrid_shard", false},
		{parallel.MeshShape{parallel.Expert: 2, parallel.Tensor: 2}, experts, "full_shard", false},
	}
)

// run makes the engine of every rank, runs f on each at once, and fails for the first error.
func (a arrangement) run(t *testing.T, f func(e *parallel.Engine, us []*nn.Unit, ranks checkpoint.ProcessGroup, params int64) error) {
	t.Helper()
	s, err := parallel.ParseStrategy(a.strategy)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", a)
	meet := collectivetest.NewBootstrap(a.ranks())
	collectivetest.Ranks(t, a.ranks(), func(w collective.World) error {
		b := openDevice(t)
		defer b.Close()
		mesh, err := parallel.NewMesh(w, a.mesh, 0)
		if err != nil {
			return err
		}
		us := placed()
		e, err := parallel.New(b, mesh, us, parallel.Options{Strategy: s, Optim: adam, Placements: a.place})
		if err != nil {
			return err
		}
		defer e.Close()
		return f(e, us, meet.Rank(w.Rank()), b.Meter().Read().Live[tensor.Params])
	})
}

// at is the value that element i of a slot is given.
func at(kind, name string, i int) float32 { return float32(len(kind)*100+len(name)) + float32(i)/1000 }

// TestPlacement: parameters that are divided by columns and by rows over ranks that shard what they
// have get the first values of whole ones; what such ranks save, any others load, to the bit, and
// export as the same files.
func TestPlacement(t *testing.T) {
	var exported []byte
	for i, from := range arrangements {
		dir := t.TempDir()
		cfg := checkpoint.Config{}
		if from.full {
			cfg.StateDictType = checkpoint.Full
		}
		store := func(ranks checkpoint.ProcessGroup) *checkpoint.Store {
			s, err := checkpoint.NewStore(dir, "a-run", cfg, ranks, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		from.run(t, func(e *parallel.Engine, us []*nn.Unit, ranks checkpoint.ProcessGroup, _ int64) error {
			if err := e.Init(5); err != nil {
				return err
			}
			for _, it := range e.State() {
				if it.Kind == checkpoint.Param {
					continue
				}
				for run := range it.Runs() {
					for k := range run.N {
						tensor.Host[float32](it.Data)[run.X+k] = at(it.Kind, it.Name, run.Y+k)
					}
				}
			}
			_, err := store(ranks).Save(context.Background(), checkpoint.Meta{Step: 1}, e.State())
			return errors.Join(err, export(filepath.Join(dir, "model"), e, us, ranks))
		})
		got, err := os.ReadFile(filepath.Join(dir, "model", "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			exported = got
			first(t, got)
		}
		if !bytes.Equal(got, exported) {
			t.Errorf("%+v exports other bytes", from)
		}
		for _, to := range arrangements {
			to.run(t, func(e *parallel.Engine, us []*nn.Unit, ranks checkpoint.ProcessGroup, _ int64) error {
				if _, err := store(ranks).Resume(context.Background(), "auto", e.State(), checkpoint.LoadOptions{}); err != nil {
					return err
				}
				for _, it := range e.State() {
					if it.Kind == checkpoint.Param {
						continue
					}
					for run := range it.Runs() {
						for k := range run.N {
							if v := tensor.Host[float32](it.Data)[run.X+k]; v != at(it.Kind, it.Name, run.Y+k) {
								return fmt.Errorf("%s of %s, element %d: %v", it.Kind, it.Name, run.Y+k, v)
							}
						}
					}
				}
				return export(filepath.Join(dir, "again"), e, us, ranks)
			})
			again, err := os.ReadFile(filepath.Join(dir, "again", "model.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, exported) {
				t.Errorf("%+v to %+v: other parameters", from, to)
			}
		}
	}
}

// first holds an export against first values that are made whole.
func first(t *testing.T, file []byte) {
	t.Helper()
	f, err := safetensors.NewFile("exported", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	b := openDevice(t)
	defer b.Close()
	for _, u := range placed() {
		for _, p := range u.Params {
			want := b.New(tensor.Params, tensor.F32, p.Shape...)
			p.Fill(b, want, 5, 0)
			got := make([]byte, want.Bytes())
			if err := f.ReadRange(p.Name, 0, want.Elems(), got); err != nil {
				t.Fatal(err)
			}
			for i, v := range tensor.Host[float32](want) {
				if bits := binary.LittleEndian.Uint32(got[4*i:]); bits != math.Float32bits(v) {
					t.Fatalf("%s, element %d: %v, whole %v", p.Name, i, math.Float32frombits(bits), v)
				}
			}
		}
	}
}

// export writes the parameters as a model's file.
func export(dir string, e *parallel.Engine, us []*nn.Unit, ranks checkpoint.ProcessGroup) error {
	var entries []safetensors.Entry
	for _, u := range us {
		for _, p := range u.Params {
			entries = append(entries, safetensors.Entry{Name: p.Name, DType: tensor.F32, Shape: p.Shape})
		}
	}
	return checkpoint.Export(context.Background(), dir, entries, e.OwnedParams(), ranks, checkpoint.ExportOptions{})
}

// TestPlacementLocally: a rank takes memory for its local parts, and these are what its flats hold.
func TestPlacementLocally(t *testing.T) {
	four := arrangement{parallel.MeshShape{parallel.Tensor: 4}, tensors, "no_shard", false}
	var mu sync.Mutex
	held := 0
	four.run(t, func(e *parallel.Engine, us []*nn.Unit, _ checkpoint.ProcessGroup, bytes int64) error {
		mu.Lock()
		defer mu.Unlock()
		local := 0
		for _, u := range us {
			for _, p := range u.Params {
				local += p.Local.Elems()
				if p.Name != "norm.weight" {
					held += p.Local.Elems()
				}
				if p.Value == nil || !p.Value.Shape().Equal(p.Local.Sizes) {
					return fmt.Errorf("%s has %v of %v", p.Name, p.Value, p.Local)
				}
			}
		}
		// Each of four runs of parameters begins at a block, and so do the two flats' ends.
		if most := 4 * int64(local+6*tensor.SumBlock); bytes > most {
			return fmt.Errorf("%d bytes of parameters for %d elements", bytes, local)
		}
		return nil
	})
	if want := 13*11 + 11 + 11*29; held != want {
		t.Errorf("all ranks hold %d elements of %d", held, want)
	}
}

// TestPlacementRefuses: what cannot be placed is an error that names the parameter.
func TestPlacementRefuses(t *testing.T) {
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer worlds[0].Close()
	b := openDevice(t)
	defer b.Close()
	mesh, err := parallel.NewMesh(worlds[0], parallel.MeshShape{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for want, place := range map[string]parallel.Placements{
		"place up.weight [13 11]: dimension 2 cannot be divided along tensor":  {"up.weight": {parallel.Tensor: 2}},
		"place up.weight [13 11]: dimension -1 cannot be divided along tensor": {"up.weight": {parallel.Tensor: -1}},
		"place up.bias [11]: dimension 0 cannot be divided along shard":        {"up.bias": {parallel.Shard: 0}},
		"place up.bias [11]: dimension 0 cannot be divided along replicate":    {"up.bias": {parallel.Replicate: 0}},
		"place up.bias [11]: dimension 0 cannot be divided along axis 9":       {"up.bias": {parallel.Axis(9): 0}},
		"2 parameters are placed, and the model has 1 of them":                 {"up.bias": {parallel.Tensor: 0}, "up.biases": {parallel.Tensor: 0}},
	} {
		_, err := parallel.New(b, mesh, placed(), parallel.Options{Optim: optim.Grouping{Optimizer: optim.AdamW{}}, Placements: place})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", place, err)
		}
	}
}
