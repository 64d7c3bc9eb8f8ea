package collectivetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"trireme/collective"
	"trireme/tensor"
)

// Random runs operations of random sizes and types on random layouts of ranks: mk makes a world on hosts with
// the given numbers of ranks, up to 7 in all, whose hosts exchange directly up to a number of hosts.
func Random(t *testing.T, layouts int, mk func(t *testing.T, hosts []int, direct, conns int) []collective.World) {
	types := []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.F64, tensor.I32, tensor.I64}
	pairs := [][2]tensor.DType{{tensor.F32, tensor.F32}, {tensor.F32, tensor.BF16}, {tensor.BF16, tensor.BF16}, {tensor.BF16, tensor.F32}, {tensor.I64, tensor.I64}}
	for seed := range layouts {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		var hosts []int
		n := 0
		for limit := 2 + rng.IntN(6); n < limit; n += hosts[len(hosts)-1] {
			hosts = append(hosts, 1+rng.IntN(min(3, limit-n)))
		}
		direct, conns := 1+rng.IntN(4), 1+rng.IntN(3)
		t.Run(fmt.Sprint(hosts, direct, conns), func(t *testing.T) {
			worlds := func(t *testing.T, _ int, _ collective.Config) []collective.World { return mk(t, hosts, direct, conns) }
			each(t, maker{worlds, meeting}, n, collective.Config{}, func(r *rank) error {
				rng := rand.New(rand.NewPCG(uint64(seed), 2)) // the same on all ranks
				for range 5 {
					m := 1 << rng.IntN(18)
					m += rng.IntN(m)
					if err := r.operation(types[rng.IntN(len(types))], m, n); err != nil {
						return err
					}
					p := pairs[rng.IntN(len(pairs))]
					if err := r.reduction(p[0], p[1], m/n, n, rng.IntN(2) > 0, rng.IntN(2) > 0); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
