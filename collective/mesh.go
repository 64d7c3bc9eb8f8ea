package collective

import "fmt"

// Mesh is a world as Replicate x Shard ranks: rank (r, s) is r*Shard+s, so that the ranks
// which hold one replica's shards are neighbours.
type Mesh struct {
	Replicate, Shard   int
	World              Group // all ranks
	ShardGroup         Group // the caller's replica: ranks r*Shard ... r*Shard+Shard-1
	ReplicateGroup     Group // those that hold the caller's shard: ranks s, Shard+s, ...
	ReplicaID, ShardID int   // the caller's r and s
}

// NewMesh forms the groups of a mesh. Every rank of the world calls it with the same
// numbers; their product is the world's size. Groups of one rank are groups all the same.
func NewMesh(w World, replicate, shard int) (*Mesh, error) {
	if replicate < 1 || shard < 1 || replicate*shard != w.Size() {
		return nil, fmt.Errorf("collective: a mesh of %d x %d does not have the world's %d ranks", replicate, shard, w.Size())
	}
	m := &Mesh{Replicate: replicate, Shard: shard, ReplicaID: w.Rank() / shard, ShardID: w.Rank() % shard}
	form := func(name string, first, step, n int, mine *Group) error {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = first + i*step
		}
		g, err := w.Group(name, ranks)
		if g != nil {
			*mine = g
		}
		return err
	}
	if err := form("world", 0, 1, w.Size(), &m.World); err != nil {
		return nil, err
	}
	for r := range replicate {
		if err := form("shard", r*shard, 1, shard, &m.ShardGroup); err != nil {
			return nil, err
		}
	}
	for s := range shard {
		if err := form("replicate", s, shard, replicate, &m.ReplicateGroup); err != nil {
			return nil, err
		}
	}
	return m, nil
}
