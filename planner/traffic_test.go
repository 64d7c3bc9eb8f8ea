package planner

import (
	"context"
	"maps"
	"reflect"
	"testing"

	"trireme/parallel"
	"trireme/train"
)

// Every rank has the same plan.
func TestRanksAreAlike(t *testing.T) {
	for _, strategy := range parallel.StrategyNames() {
		for _, ranks := range []int{1, 2, 3, 6} {
			j := job(t, ranks, func(c *train.Config) { c.Parallel.Strategy = strategy })
			first := plan(t, j)
			for rank := range ranks {
				p, err := j.Run(context.Background(), rank)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(p, first) {
					t.Errorf("%s: rank %d of %d: %+v, rank 0 %+v", strategy, rank, ranks, p, first)
				}
			}
		}
	}
}

// A step sends what the papers say, in bytes of all parameters (Rajbhandari et al. 2019, section 7): 2 with
// a reduction and one all-gather, 3 with two all-gathers. The last unit is gathered once.
func TestVolume(t *testing.T) {
	const ranks = 4
	for strategy, want := range map[string]map[string]float64{
		"no_shard":      {"reduce_scatter": 1, "all_gather": 1},
		"zero_1":        {"reduce_scatter": 1, "all_gather": 1},
		"shard_grad_op": {"reduce_scatter": 1, "all_gather": 1},
		"full_shard":    {"reduce_scatter": 1, "all_gather": 2},
		"hybrid_shard":  {"reduce_scatter": 1, "all_gather": 2},
	} {
		j := job(t, ranks, func(c *train.Config) { c.Parallel.Strategy = strategy })
		p := plan(t, j)
		padded := 0.0
		for _, n := range []int{61 * 24, 24 + 61*24} { // embedding, head with its norm
			padded += float64((n + 255) / 256 * 256)
		}
		layer := 2*24 + 24*(6+2*2)*4 + 24*24 + 3*24*37
		padded += 4 * float64((layer+255)/256*256)
		last := float64((24+61*24+255)/256*256) * 4
		for op, times := range want {
			bytes := 0.0
			for _, s := range p.Sent {
				if s.Op == op {
					bytes += float64(s.Bytes)
				}
			}
			whole := times * padded * 4
			if strategy == "full_shard" || strategy == "hybrid_shard" {
				if op == "all_gather" {
					whole -= last
				}
			}
			expect := whole * (ranks - 1) / ranks
			if strategy == "hybrid_shard" && op == "all_gather" { // half of the ranks share, and replicas complete their shards
				expect = whole/2 + padded*4/4
			}
			if bytes != expect {
				t.Errorf("%s sends %v bytes by %s, want %v", strategy, bytes, op, expect)
			}
		}
	}
}

// Without world_invariant, a rank of hybrid sharding reduce-scatters within its shard group and all-reduces
// with its replica: 2(n-1)/n of the bytes for n ranks.
func TestVolumeOfReplicas(t *testing.T) {
	for ranks, replicas := range map[int]float64{4: 2, 8: 4} {
		j := job(t, ranks, func(c *train.Config) {
			c.Parallel.Strategy, c.Parallel.WorldInvariant, c.Parallel.Mesh.Shard = "hybrid_shard", false, 2
		})
		layer := 2*24 + 24*(6+2*2)*4 + 24*24 + 3*24*37
		padded := 0.0
		for _, n := range []int{61 * 24, layer, layer, layer, layer, 24 + 61*24} {
			padded += float64((n + 64*ranks - 1) / (64 * ranks) * 64 * ranks)
		}
		got := map[string]float64{}
		for _, s := range plan(t, j).Sent {
			if s.Op != "all_gather" && s.Group != "world" {
				got[s.Op+" "+s.Group] += float64(s.Bytes)
			}
		}
		want := map[string]float64{"reduce_scatter shard": padded * 4 / 2, "all_reduce replicate": 2 * (replicas - 1) / replicas * padded * 4 / 2}
		if !maps.Equal(got, want) {
			t.Errorf("%d ranks send %v, want %v", ranks, got, want)
		}
	}
}
