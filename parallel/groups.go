package parallel

import "trireme/collective"

// Groups are the groups of ranks that an Engine speaks to. The mesh is replicas x shards, rank
// = replica*shards + shard.
type Groups struct {
	World     collective.Group
	Shard     collective.Group // the ranks that divide one copy
	Replicate collective.Group // the ranks that hold the same shard
	// Reshard is neighbours within Shard that divide what Gather.Keep keeps; nil: each keeps it
	// whole.
	Reshard collective.Group
}

// NewGroups forms a world's groups: replicate x shard ranks, of which each reshard neighbours keep
// parameters together; 0 for none. Every rank calls it with the same numbers.
func NewGroups(w collective.World, replicate, shard, reshard int) (Groups, error) {
	mesh, err := collective.NewMesh(w, replicate, shard)
	if err != nil {
		return Groups{}, err
	}
	g := Groups{World: mesh.World, Shard: mesh.ShardGroup, Replicate: mesh.ReplicateGroup}
	if reshard == 0 {
		return g, nil
	}
	for first := 0; first < w.Size(); first += reshard {
		ranks := make([]int, reshard)
		for i := range ranks {
			ranks[i] = first + i
		}
		near, err := w.Group("reshard", ranks)
		if err != nil {
			return Groups{}, err
		}
		if near != nil {
			g.Reshard = near
		}
	}
	return g, nil
}
