package parallel

import (
	"fmt"

	"trireme/collective"
)

// Axis is a dimension of the device mesh.
type Axis uint8

// The axes, outermost first, in Megatron-LM's order: the innermost communicate most often. Tensor, Context and
// Expert communicate within each layer, Shard once a unit, Replicate once a step, Pipeline between stages.
const (
	Pipeline  Axis = iota // ranks run different units
	Replicate             // ranks hold the same shards and read different data
	Shard                 // ranks shard a replica and read different data
	Expert                // ranks hold different experts
	Context               // ranks read different parts of a sequence
	Tensor                // ranks hold different shards of a matrix
	axes
)

func (a Axis) String() string {
	if a >= axes {
		return fmt.Sprintf("axis %d", uint8(a))
	}
	return [axes]string{"pipeline", "replicate", "shard", "expert", "context", "tensor"}[a]
}

// MeshShape is the number of ranks along each axis; 0 counts as 1.
type MeshShape [axes]int

func (s MeshShape) size(a Axis) int { return max(1, s[a]) }

// stride returns the distance in ranks between neighbors along an axis.
func (s MeshShape) stride(a Axis) int {
	n := 1
	for a++; a < axes; a++ {
		n *= s.size(a)
	}
	return n
}

// Ranks is the part of collective.World that NewMesh needs.
type Ranks interface {
	Rank() int
	Size() int
	Group(name string, ranks []int) (collective.Group, error)
}

// Mesh is a device mesh as one rank sees it: its coordinates and process groups.
type Mesh struct {
	// World has all ranks. Data has the ranks that differ only along Replicate and Shard: they hold
	// the same boxes of parameters and reduce gradients together.
	World, Data collective.Group
	// Reshard is the group of neighbors along Shard that share one copy kept by AllGather.Keep; nil
	// if each rank keeps its own.
	Reshard collective.Group

	shape  MeshShape
	rank   int
	groups [axes]collective.Group
	names  map[string][]int // the ranks of the groups by name
}

// NewMesh forms the groups of a mesh of w's ranks. reshard is the size of the Reshard groups, 0 for
// none. Every rank calls it with the same arguments.
func NewMesh(w Ranks, shape MeshShape, reshard int) (*Mesh, error) {
	m := &Mesh{shape: shape, rank: w.Rank(), names: map[string][]int{}}
	if n := shape.stride(Pipeline) * shape.size(Pipeline); n != w.Size() {
		return nil, fmt.Errorf("parallel: the mesh has %d ranks, and the world %d", n, w.Size())
	}
	var failed error
	// lines forms the groups of n ranks that are stride apart, and returns this rank's.
	lines := func(name string, n, stride int) (mine collective.Group) {
		for first := range w.Size() {
			if failed != nil || first/stride%n != 0 {
				continue
			}
			ranks := make([]int, n)
			for i := range ranks {
				ranks[i] = first + i*stride
			}
			g, err := w.Group(name, ranks)
			if failed = err; g != nil {
				mine = g
				m.names[name] = ranks
			}
		}
		return mine
	}
	m.World = lines("world", w.Size(), 1)
	for a := range axes {
		if shape.size(a) > 1 || a == Replicate || a == Shard {
			m.groups[a] = lines(a.String(), shape.size(a), shape.stride(a))
		}
	}
	if m.Data = m.World; m.ranks() < w.Size() {
		m.Data = lines("data", m.ranks(), shape.stride(Shard))
	}
	if reshard > 0 {
		m.Reshard = lines("reshard", reshard, shape.stride(Shard))
	}
	return m, failed
}

// Groups returns the ranks of each group of this rank, by the group's name.
func (m *Mesh) Groups() map[string][]int { return m.names }

// Size returns the number of ranks along an axis.
func (m *Mesh) Size(a Axis) int { return m.shape.size(a) }

// Coordinate returns this rank's coordinate along an axis.
func (m *Mesh) Coordinate(a Axis) int { return m.rank / m.shape.stride(a) % m.shape.size(a) }

// Group returns the ranks that differ from this one only along an axis. It is nil for an axis of size
// 1, except Replicate and Shard, which always have a group.
func (m *Mesh) Group(a Axis) collective.Group { return m.groups[a] }

func (m *Mesh) ranks() int { return m.Size(Replicate) * m.Size(Shard) }

// chunk returns the index of the chunk that this rank owns alone, of a flat split evenly over Data. The
// chunks of one shard are adjacent.
func (m *Mesh) chunk() int { return m.Coordinate(Shard)*m.Size(Replicate) + m.Coordinate(Replicate) }

// chunks returns chunk for every rank of Data, or nil if each is the rank itself.
func (m *Mesh) chunks() []int {
	if m.Size(Replicate) == 1 {
		return nil
	}
	shards := m.Size(Shard)
	c := make([]int, m.ranks())
	for rank := range c {
		c[rank] = rank%shards*m.Size(Replicate) + rank/shards
	}
	return c
}
