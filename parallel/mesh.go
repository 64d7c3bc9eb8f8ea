package parallel

import (
	"fmt"

	"trireme/collective"
)

// Axis is a dimension of the mesh of ranks.
type Axis uint8

// The axes, outermost first: the ranks along Tensor are neighbors, those along Pipeline are farthest
// apart. The more often ranks speak and the less they can compute meanwhile, the nearer they are:
// within each layer (Tensor, Context, Expert), once a unit (Shard), once a step (Replicate), and from
// one stage to the next (Pipeline). Megatron-LM orders them so; torchtitan has Expert within Shard.
const (
	Pipeline  Axis = iota // ranks hold different units
	Replicate             // ranks hold the same state and read different data
	Shard                 // ranks divide the state of a replica and read different data
	Expert                // ranks hold different experts
	Context               // ranks read different parts of a sequence
	Tensor                // ranks hold different parts of a matrix
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

// size returns the number of ranks along an axis, at least 1.
func (s MeshShape) size(a Axis) int { return max(1, s[a]) }

// stride is the distance between neighbors along an axis, in ranks.
func (s MeshShape) stride(a Axis) int {
	n := 1
	for a++; a < axes; a++ {
		n *= s.size(a)
	}
	return n
}

// Ranks are those of a world, of which groups are formed, as collective.World does.
type Ranks interface {
	Rank() int
	Size() int
	Group(name string, ranks []int) (collective.Group, error)
}

// Mesh is a rank's place among the ranks, and the groups that it speaks to.
type Mesh struct {
	// World has all ranks, Data those that differ along Replicate and Shard alone: they hold the
	// same boxes of the same parameters and add up their gradients.
	World, Data collective.Group
	// Reshard is neighbors along Shard that divide what Gather.Keep keeps; nil: each keeps it whole.
	Reshard collective.Group

	shape  MeshShape
	rank   int
	groups [axes]collective.Group
}

// NewMesh forms the groups of a world's ranks, of which each reshard neighbors along Shard keep
// parameters together; 0 for none. Every rank calls it with the same numbers.
func NewMesh(w Ranks, shape MeshShape, reshard int) (*Mesh, error) {
	m := &Mesh{shape: shape, rank: w.Rank()}
	if n := shape.stride(Pipeline) * shape.size(Pipeline); n != w.Size() {
		return nil, fmt.Errorf("parallel: a mesh of %d ranks in a world of %d", n, w.Size())
	}
	var failed error
	// lines forms groups of n ranks that are stride apart, and returns this rank's.
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

// Size returns the number of ranks along an axis.
func (m *Mesh) Size(a Axis) int { return m.shape.size(a) }

// Coordinate returns this rank's coordinate along an axis.
func (m *Mesh) Coordinate(a Axis) int { return m.rank / m.shape.stride(a) % m.shape.size(a) }

// Group has the ranks that differ from this one along an axis alone. Along an axis of one rank there
// is none, but for Replicate and Shard, along which an Engine speaks whatever their extent.
func (m *Mesh) Group(a Axis) collective.Group { return m.groups[a] }

// ranks is the size of Data.
func (m *Mesh) ranks() int { return m.Size(Replicate) * m.Size(Shard) }

// chunk is the part of a flat, cut in as many as Data has ranks, that this rank owns alone: parts of
// one shard lie together.
func (m *Mesh) chunk() int { return m.Coordinate(Shard)*m.Size(Replicate) + m.Coordinate(Replicate) }

// chunks is chunk for every rank of Data; nil where it is the rank's own number.
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
