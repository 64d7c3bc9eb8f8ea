package cli

import (
	"context"
	"strings"
	"testing"

	"trireme/train"
)

// heard is an agreement of two ranks, of which rank 1 says what it is given.
type heard string

func (heard) Rank() int { return 0 }
func (heard) Size() int { return 2 }
func (h heard) Gather(_ context.Context, mine []byte) ([][]byte, error) {
	return [][]byte{mine, []byte(h)}, nil
}

// Machines with different numbers of ranks would divide a hybrid mesh in different ways.
func TestMachinesOfOneSize(t *testing.T) {
	for _, c := range []struct{ strategy, theirs, err string }{
		{"hybrid_shard", "LOCAL_WORLD_SIZE: 4\n", "rank 1 has another configuration than rank 0: LOCAL_WORLD_SIZE is 4 there, 2 at rank 0"},
		{"hybrid_shard", "LOCAL_WORLD_SIZE: 2\n", ""},
		{"full_shard", "", ""},
	} {
		cfg := train.Default()
		cfg.Parallel.Strategy = c.strategy
		j := &job{cfg: cfg, resolved: "output_dir: out\n"}
		err := j.sameEverywhere(context.Background(), heard(j.resolved+c.theirs), 2)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
