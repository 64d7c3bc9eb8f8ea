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

// The parameters of a unit with a matrix sharded by columns and one sharded by rows, as in a
// tensor-parallel layer, with sizes that do not divide evenly.
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

type sharding struct {
	mesh       parallel.MeshShape
	placements parallel.Placements
	strategy   string
	full       bool // one file with whole tensors
}

func (a sharding) ranks() int {
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

	arrangements = []sharding{
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

// run makes every rank's engine and runs f on all ranks concurrently; it fails on the first error.
func (a sharding) run(t *testing.T, f func(e *parallel.Engine, us []*nn.Unit, ranks checkpoint.ProcessGroup, params int64) error) {
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
		e, err := parallel.New(b, mesh, us, parallel.Options{Strategy: s, Optim: adam, Placements: a.placements})
		if err != nil {
			return err
		}
		defer e.Close()
		return f(e, us, meet.Rank(w.Rank()), b.Meter().Read().Live[tensor.Params])
	})
}

func at(kind, name string, i int) float32 { return float32(len(kind)*100+len(name)) + float32(i)/1000 }

// TestPlacement: column-wise and row-wise sharded parameters, sharded again by the strategy, have the
// initial values of unsharded ones; any other placement loads their checkpoint with the same bits and
// exports the same files.
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

// first compares an export with initial values of unsharded parameters.
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

func export(dir string, e *parallel.Engine, us []*nn.Unit, ranks checkpoint.ProcessGroup) error {
	var entries []safetensors.Entry
	for _, u := range us {
		for _, p := range u.Params {
			entries = append(entries, safetensors.Entry{Name: p.Name, DType: tensor.F32, Shape: p.Shape})
		}
	}
	return checkpoint.Export(context.Background(), dir, entries, e.OwnedParams(), ranks, checkpoint.ExportOptions{})
}

// TestPlacementLocally: a rank allocates memory for its local boxes only, and its flats hold them.
func TestPlacementLocally(t *testing.T) {
	four := sharding{parallel.MeshShape{parallel.Tensor: 4}, tensors, "no_shard", false}
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
		// Four runs of parameters and the ends of two flats are aligned to blocks.
		if most := 4 * int64(local+6*tensor.SumBlock); bytes > most {
			return fmt.Errorf("%d bytes of parameters for %d elements", bytes, local)
		}
		return nil
	})
	if want := 13*11 + 11 + 11*29; held != want {
		t.Errorf("all ranks hold %d elements of %d", held, want)
	}
}

// TestInvalidPlacement: an invalid placement is an error that names the parameter.
func TestInvalidPlacement(t *testing.T) {
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
	for want, placements := range map[string]parallel.Placements{
		"placement of up.weight [13 11]: cannot shard dimension 2 along tensor":  {"up.weight": {parallel.Tensor: 2}},
		"placement of up.weight [13 11]: cannot shard dimension -1 along tensor": {"up.weight": {parallel.Tensor: -1}},
		"placement of up.bias [11]: cannot shard dimension 0 along shard":        {"up.bias": {parallel.Shard: 0}},
		"placement of up.bias [11]: cannot shard dimension 0 along replicate":    {"up.bias": {parallel.Replicate: 0}},
		"placement of up.bias [11]: cannot shard dimension 0 along axis 9":       {"up.bias": {parallel.Axis(9): 0}},
		"2 parameters have a placement, but the model has only 1 of them":        {"up.bias": {parallel.Tensor: 0}, "up.biases": {parallel.Tensor: 0}},
	} {
		_, err := parallel.New(b, mesh, placed(), parallel.Options{Optim: optim.Grouping{Optimizer: optim.AdamW{}}, Placements: placements})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", placements, err)
		}
	}
}
