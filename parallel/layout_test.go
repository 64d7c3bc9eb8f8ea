package parallel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/nn"
	"trireme/tensor"
)

// TestLayoutPartitions: for any parameters and any mesh, the owned ranges partition the flat, every
// range starts and ends at a multiple of SumBlock, and each kept range covers the owned one.
func TestLayoutPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ps []grouped
		elems := 0
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 5000), 1, 6).Draw(t, "sizes") {
			q := grouped{Param: nn.NewParam(fmt.Sprint(i), nn.Init{}, n)}
			if i > 0 {
				if q.group = ps[i-1].group; rapid.Bool().Draw(t, "another group") {
					q.group += rapid.IntRange(1, 2).Draw(t, "group")
				}
				if rapid.Bool().Draw(t, "multiplied as one") {
					q.FusedAfter = ps[i-1].Param
				}
			}
			ps = append(ps, q)
			elems += n
		}
		block := rapid.SampledFrom([]int{1, 256}).Draw(t, "block")
		align := max(tensor.SumBlock, block)
		s := rapid.SampledFrom(strategies).Draw(t, "strategy").Strategy
		shards, replicas := rapid.IntRange(1, 9).Draw(t, "shards"), 1
		if s.Replicas {
			replicas = rapid.IntRange(1, 5).Draw(t, "replicas")
		}
		world := shards * replicas
		var chunks []int
		padded := 0
		covered := map[int]int{} // start of an owned range -> its end
		for rank := range world {
			m := &Mesh{shape: MeshShape{Replicate: replicas, Shard: shards}, rank: rank}
			l := newLayout(ps, s, m, false, block)
			if l.padded < elems || l.padded-elems >= (len(ps)+world)*align || rank > 0 && l.padded != padded {
				t.Fatalf("rank %d: %d elements padded to %d", rank, elems, l.padded)
			}
			filled := make([]int, l.padded)
			for i, q := range ps {
				one := q.FusedAfter != nil && q.group == ps[i-1].group
				if !one && l.starts[i]%align != 0 || l.starts[i]%block != 0 || one && block == 1 && l.starts[i] != l.starts[i-1]+ps[i-1].Shape.Elems() {
					t.Fatalf("parameter %d begins at %d", i, l.starts[i])
				}
				for k := range q.Shape.Elems() {
					filled[l.starts[i]+k]++
				}
			}
			for _, g := range l.gapsIn(span{0, l.padded}) {
				for k := g.lo; k < g.hi; k++ {
					filled[k]++
				}
			}
			for k, n := range filled {
				if n != 1 {
					t.Fatalf("element %d is in %d parameters or gaps", k, n)
				}
			}
			padded = l.padded
			for what, r := range map[string]span{"parameters": l.param, "gradients": l.grad, "optimizer": l.optim, "own": l.own} {
				if r.lo%align != 0 || r.hi%align != 0 || r.lo < 0 || r.hi > padded || r.len() < 0 {
					t.Fatalf("rank %d: %s %+v of %d", rank, what, r, padded)
				}
				if l.own.intersect(r) != l.own {
					t.Fatalf("rank %d: %s %+v does not cover its own %+v", rank, what, r, l.own)
				}
			}
			if divided := map[bool]int{true: padded / shards, false: padded}; l.param.len() != divided[s.Params] || l.grad.len() != divided[s.Grads] || l.optim.len() != divided[s.Optimizer] {
				t.Fatalf("rank %d: %+v with %+v", rank, l, s)
			}
			if l.own.len() > 0 {
				if _, twice := covered[l.own.lo]; twice {
					t.Fatalf("two ranks own %+v", l.own)
				}
				covered[l.own.lo] = l.own.hi
			}
			chunks = m.chunks()
			if chunks != nil && chunks[rank]*(padded/world) != l.own.lo {
				t.Fatalf("rank %d receives chunk %d and owns %+v", rank, chunks[rank], l.own)
			}
			// Group ends ascend, each after the group's parameters.
			ends := l.ends(l.own, 0, ps[len(ps)-1].group+1)
			if !slices.IsSorted(ends) || ends[len(ends)-1] != int64(l.own.len()) {
				t.Fatalf("rank %d: groups of %d elements end at %v", rank, l.own.len(), ends)
			}
			for i, q := range ps {
				m := l.own.intersect(span{l.starts[i], l.starts[i] + q.Shape.Elems()})
				first := 0
				if q.group > 0 {
					first = int(ends[q.group-1])
				}
				if m.len() > 0 && (m.lo-l.own.lo < first || m.hi-l.own.lo > int(ends[q.group])) {
					t.Fatalf("rank %d: parameter %d of group %d has %+v of %+v, groups end at %v", rank, i, q.group, m, l.own, ends)
				}
			}
			// Parts of parameters within a range are adjacent and add up.
			n, end := 0, -1
			l.each(l.own, func(q *nn.Param, first, at, k int) {
				if k <= 0 || first < 0 || first+k > q.Shape.Elems() || at < l.own.lo || at+k > l.own.hi || at < end {
					t.Fatalf("rank %d: part [%d,%d) of %d at %d of %+v", rank, first, first+k, q.Shape.Elems(), at, l.own)
				}
				n, end = n+k, at+k
			})
			want := l.own.len()
			for _, g := range l.gapsIn(l.own) {
				want -= g.len()
			}
			if n != want {
				t.Fatalf("rank %d: parts have %d elements, its own range %d", rank, n, want)
			}
		}
		for at := 0; at < padded; {
			end, ok := covered[at]
			if !ok {
				t.Fatalf("no rank owns element %d of %d", at, padded)
			}
			at = end
		}
	})
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		strategy                string
		replicate, shard, world int
		r, s                    int
		err                     string
	}{
		{"full_shard", 0, 0, 5, 1, 5, ""},
		{"FULL-SHARD", 0, 0, 1, 1, 1, ""},
		{"hybrid_shard", 0, 0, 8, 1, 8, ""},
		{"4", 0, 2, 6, 3, 2, ""},
		{"hybrid_shard", 3, 0, 6, 3, 2, ""},
		{"hybrid_shard", 4, 0, 6, 0, 0, "does not divide the 6 ranks"},
		{"hybrid_shard", 0, 7, 6, 0, 0, "does not divide the 6 ranks"},
		{"full_shard", 1, 2, 1, 0, 0, "try: ranks=2"},
		{"zero_2", 2, 2, 4, 0, 0, "strategy shard_grad_op has none"},
		{"zero_4", 0, 0, 4, 0, 0, "is not one of"},
	} {
		cfg := Default()
		cfg.Strategy, cfg.Mesh = c.strategy, MeshConfig{c.replicate, c.shard}
		_, mesh, err := cfg.Resolve(c.world, 0)
		if c.err == "" && (err != nil || mesh != MeshShape{Replicate: c.r, Shard: c.s}) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %v, %v", c, mesh, err)
		}
	}
}

// TestMeshByMachine: without a mesh, hybrid sharding shards within machines and replicates across them;
// a given mesh, and other strategies, do not depend on machines.
func TestMeshByMachine(t *testing.T) {
	for _, c := range []struct {
		strategy string
		mesh     MeshConfig
		world    int
		local    int
		r, s     int
		err      string
	}{
		{"hybrid_shard", MeshConfig{}, 16, 4, 4, 4, ""},
		{"hybrid_shard_zero2", MeshConfig{}, 16, 8, 2, 8, ""},
		{"hybrid_shard", MeshConfig{}, 4, 4, 1, 4, ""},
		{"hybrid_shard", MeshConfig{}, 4, 1, 4, 1, ""},
		{"hybrid_shard", MeshConfig{}, 6, 4, 0, 0, "shards within a machine, but 4 ranks per machine do not divide the 6 ranks of this run"},
		{"hybrid_shard", MeshConfig{Replicate: 2}, 16, 4, 2, 8, ""},
		{"hybrid_shard", MeshConfig{Shard: 2}, 16, 4, 8, 2, ""},
		{"full_shard", MeshConfig{}, 6, 4, 1, 6, ""},
	} {
		cfg := Default()
		cfg.Strategy, cfg.Mesh = c.strategy, c.mesh
		_, mesh, err := cfg.Resolve(c.world, c.local)
		if c.err == "" && (err != nil || mesh != MeshShape{Replicate: c.r, Shard: c.s}) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %v, %v", c, mesh, err)
		}
	}
}
