package parallel

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/collective"
	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

type fakeGroup struct {
	collective.Group
	ranks []int
}

type fakeWorld struct {
	rank, size int
	formed     []string
	lists      map[string][]int // the ranks of all groups of a name, in order
}

func (p *fakeWorld) Rank() int { return p.rank }
func (p *fakeWorld) Size() int { return p.size }

func (p *fakeWorld) Group(name string, ranks []int) (collective.Group, error) {
	p.formed = append(p.formed, fmt.Sprint(name, ranks))
	if p.lists == nil {
		p.lists = map[string][]int{}
	}
	p.lists[name] = append(p.lists[name], ranks...)
	if !slices.Contains(ranks, p.rank) {
		return nil, nil
	}
	return fakeGroup{ranks: ranks}, nil
}

// TestMesh: the group along axes has the ranks whose coordinates differ along these only, in rank
// order; every rank forms the same groups in the same order; ranks along the last axis are adjacent. The
// groups of a name have each rank once, because compiled programs name a collective's group and take the lists
// of all ranks from these calls.
func TestMesh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e MeshShape
		size := 1
		for a := range axes {
			e[a] = rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, a.String())
			size *= max(1, e[a])
		}
		reshard := 0
		if e[Shard] > 1 {
			reshard = rapid.SampledFrom([]int{0, e[Shard]}).Draw(t, "reshard")
		}
		at := map[int][axes]int{}
		meshes := make([]*Mesh, size)
		var formed []string
		for rank := range size {
			w := &fakeWorld{rank: rank, size: size}
			m, err := NewMesh(w, e, reshard)
			if err != nil {
				t.Fatal(err)
			}
			for name, ranks := range w.lists {
				slices.Sort(ranks)
				for i := range max(size, len(ranks)) {
					if len(ranks) != size || ranks[i] != i {
						t.Fatalf("%v: groups %s have the ranks %v", e, name, ranks)
					}
				}
			}
			if rank > 0 && !reflect.DeepEqual(w.formed, formed) {
				t.Fatalf("rank %d forms %q, rank 0 %q", rank, w.formed, formed)
			}
			formed, meshes[rank] = w.formed, m
			var c [axes]int
			n := 0
			for a := range axes {
				c[a] = m.Coordinate(a)
				n = n*m.Size(a) + c[a]
			}
			if at[rank] = c; n != rank {
				t.Fatalf("rank %d is at %v", rank, c)
			}
		}
		for rank, m := range meshes {
			along := func(name string, g collective.Group, free ...Axis) {
				var want []int
				for other := range size {
					if !slices.ContainsFunc(slices.Collect(each()), func(a Axis) bool {
						return !slices.Contains(free, a) && at[other][a] != at[rank][a]
					}) {
						want = append(want, other)
					}
				}
				if got := g.(fakeGroup).ranks; !slices.Equal(got, want) {
					t.Fatalf("%v: rank %d has %v along %s, want %v", e, rank, got, name, want)
				}
			}
			for a := range axes {
				if m.Size(a) > 1 || a == Replicate || a == Shard {
					along(a.String(), m.Group(a), a)
				} else if m.Group(a) != nil {
					t.Fatalf("rank %d has a group along %v, of one rank", rank, a)
				}
			}
			along("data", m.Data, Replicate, Shard)
			along("world", m.World, slices.Collect(each())...)
			if reshard > 0 {
				along("reshard", m.Reshard, Shard)
			}
		}
	})
	if _, err := NewMesh(&fakeWorld{size: 5}, MeshShape{Shard: 2, Tensor: 2}, 0); err == nil {
		t.Error("a mesh of 4 ranks in a world of 5")
	}
}

func each() func(func(Axis) bool) {
	return func(yield func(Axis) bool) {
		for a := range axes {
			if !yield(a) {
				return
			}
		}
	}
}

// TestPlacementOfBlockState: optimizers with state per block of whole parameters refuse sharded ones.
func TestPlacementOfBlockState(t *testing.T) {
	m, err := NewMesh(&fakeWorld{size: 2}, MeshShape{Tensor: 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := nn.NewParam("w", nn.Init{}, 64, 64)
	o := Options{Placements: Placements{"w": {Tensor: 0}}, Optim: optim.Grouping{Optimizer: optim.LowBit{Elementwise: optim.AdamW{}, StateDType: tensor.U8}}}
	err = m.setLocal([]*nn.Unit{{Params: []*nn.Param{p}}}, o)
	if err == nil || !strings.Contains(err.Error(), "placement of w [64 64]: its optimizer keeps state per block of 256 elements of the whole parameter") {
		t.Error(err)
	}
	o.Optim.Optimizer = optim.LAMB{}
	if err := m.setLocal([]*nn.Unit{{Params: []*nn.Param{p}}}, o); err == nil || !strings.Contains(err.Error(), "placement of w [64 64]: its optimizer, lamb, needs the whole parameter") {
		t.Error(err)
	}
	p.Frozen = true
	if err := m.setLocal([]*nn.Unit{{Params: []*nn.Param{p}}}, o); err != nil || p.Local.String() != "[0:32,0:64]" {
		t.Error(p.Local, err)
	}
}
