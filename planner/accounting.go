package planner

import (
	"fmt"
	"strings"

	"trireme/parallel"
)

// Accounting is a published formula for the model states: parameters, gradients and optimizer state,
// without activations. It serves to compare with other tables; a Plan describes a run.
type Accounting struct {
	Name                     string
	Params, Grads, Optimizer float64 // bytes per parameter
	Source                   string
}

// Accountings are mixed precision (16 bytes per parameter: 2, 2, and 12 for AdamW with its master
// weights), float32 (16), and seed-000 (12: no master weights). Estimates has DeepSpeed's.
var Accountings = []Accounting{
	{"mixed", 2, 2, 12, "Rajbhandari et al. 2019, section 3.1"},
	{"fp32", 4, 4, 8, "four float32 a parameter"},
	{"seed-000", 2, 2, 8, "bfloat16 weights and gradients, two float32 moments, no master copy"},
}

// DeepSpeed is the name of the accounting of DeepSpeed's estimators.
const DeepSpeed = "deepspeed"

// AccountingNames returns all names.
func AccountingNames() []string {
	var names []string
	for _, a := range Accountings {
		names = append(names, a.Name)
	}
	return append(names, DeepSpeed)
}

// Count returns the bytes of one rank under a strategy with a number of shards.
func (a Accounting) Count(s parallel.Strategy, parameters float64, shards int) float64 {
	part := func(sharded bool, bytes float64) float64 {
		if sharded {
			return bytes / float64(shards)
		}
		return bytes
	}
	return parameters * (part(s.Params, a.Params) + part(s.Grads, a.Grads) + part(s.Optimizer, a.Optimizer))
}

// Estimate is a row of DeepSpeed's estimators.
type Estimate struct {
	Strategy         string  `json:"strategy"`          // shard_grad_op (ZeRO-2) or full_shard (ZeRO-3)
	OffloadParam     bool    `json:"offload_param"`     // to the host
	OffloadOptimizer bool    `json:"offload_optimizer"` // to the host
	ZeroInit         bool    `json:"zero_init"`         // parameters are created sharded
	Device           float64 `json:"device_bytes"`      // of a rank's device
	Host             float64 `json:"host_bytes"`        // of a node's host
}

// Estimates returns the rows that DeepSpeed's estimators print, for nodes of perNode ranks and a largest
// module of largest parameters. Bytes per parameter and the host's 50% reserve follow its documentation,
// Memory Requirements. If largest is 0, there are no rows of full_shard, which keeps that module
// unsharded.
func Estimates(parameters, largest float64, nodes, perNode int) []Estimate {
	const reserve = 1.5
	ranks, n, g := float64(nodes*perNode), float64(nodes), float64(perNode)
	layer := 4 * largest
	var out []Estimate
	for _, offload := range []bool{true, false} {
		e := Estimate{Strategy: "shard_grad_op", OffloadOptimizer: offload}
		if offload {
			e.Device, e.Host = 2*parameters, parameters*max(4*ranks, 16)*reserve
		} else {
			e.Device, e.Host = 4*parameters+16*parameters/ranks, parameters*4*g*reserve
		}
		out = append(out, e)
	}
	if largest == 0 {
		return out
	}
	for _, offload := range []struct {
		param, optimizer bool
		device, host     float64 // bytes per parameter over all ranks
	}{{true, true, 0, 18}, {false, true, 2, 16}, {false, false, 18, 0}} {
		for _, init := range []bool{true, false} {
			e := Estimate{Strategy: "full_shard", OffloadParam: offload.param, OffloadOptimizer: offload.optimizer, ZeroInit: init}
			e.Device = layer + offload.device*parameters/ranks
			switch {
			case !init:
				e.Host = parameters * max(4*g, offload.host/n) * reserve
			case offload.optimizer:
				e.Host = parameters * offload.host / n * reserve
			default:
				e.Host = layer * g * reserve
			}
			out = append(out, e)
		}
	}
	return out
}

// ParseAccounting returns the accounting of a name, except DeepSpeed's.
func ParseAccounting(name string) (Accounting, error) {
	for _, a := range Accountings {
		if a.Name == name {
			return a, nil
		}
	}
	return Accounting{}, fmt.Errorf("planner: accounting %q is not one of %s", name, strings.Join(AccountingNames(), ", "))
}
