package planner_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"trireme/parallel"
	"trireme/planner"
)

func count(t *testing.T, accounting, strategy string, parameters float64, ranks int) float64 {
	t.Helper()
	a, err := planner.ParseAccounting(accounting)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parallel.ParseStrategy(strategy)
	if err != nil {
		t.Fatal(err)
	}
	return a.Count(s, parameters, ranks)
}

// printed reports whether v is a table's cell, rounded, or truncated as the paper's integers are.
func printed(v, cell float64) bool {
	text := strconv.FormatFloat(cell, 'f', -1, 64)
	digits := 0
	for i, r := range text {
		if r == '.' {
			digits = len(text) - i - 1
		}
	}
	unit := math.Pow10(-digits)
	rounded := math.Round(v/unit) * unit
	cut := math.Floor(v/unit+1e-9) * unit
	return math.Abs(rounded-cell) < unit/100 || math.Abs(cut-cell) < unit/100
}

// Every cell of Rajbhandari et al. 2019 (arXiv 1910.02054), Table 1: GB of 1e9 bytes per device, 16 bytes
// per parameter.
func TestZeROTable(t *testing.T) {
	ranks := []int{1, 4, 16, 64, 256, 1024}
	table := map[float64]map[string][]float64{
		7.5e9: {
			"zero_1":        {120, 52.5, 35.6, 31.4, 30.4, 30.1},
			"shard_grad_op": {120, 41.3, 21.6, 16.6, 15.4, 15.1},
			"full_shard":    {120, 30, 7.5, 1.88, 0.47, 0.12},
		},
		128e9: {
			"zero_1":        {2048, 896, 608, 536, 518, 513},
			"shard_grad_op": {2048, 704, 368, 284, 263, 257},
			"full_shard":    {2048, 512, 128, 32, 8, 2},
		},
		1e12: {
			"zero_1":        {16000, 7000, 4750, 4187, 4046, 4011},
			"shard_grad_op": {16000, 5500, 2875, 2218, 2054, 2013},
			"full_shard":    {16000, 4000, 1000, 250, 62.5, 15.6},
		},
	}
	for parameters, rows := range table {
		for strategy, cells := range rows {
			for i, cell := range cells {
				if got := count(t, "mixed", strategy, parameters, ranks[i]) / 1e9; !printed(got, cell) {
					t.Errorf("%.4g parameters, %s on %d: %v GB, the paper has %v", parameters, strategy, ranks[i], got, cell)
				}
			}
		}
	}
}

// Figures of published courses, where they are right.
func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		accounting, strategy string
		parameters           float64
		ranks                int
		gb                   float64
	}{
		{"seed-000", "no_shard", 7e9, 1, 84}, {"seed-000", "no_shard", 13e9, 4, 156}, {"seed-000", "full_shard", 13e9, 4, 39},
		{"fp32", "no_shard", 8e9, 16, 128}, {"fp32", "zero_1", 8e9, 16, 68}, {"fp32", "zero_2", 8e9, 16, 38}, {"fp32", "zero_3", 8e9, 16, 8},
		{"mixed", "no_shard", 8e9, 16, 128},
	} {
		if got := count(t, c.accounting, c.strategy, c.parameters, c.ranks) / 1e9; got != c.gb {
			t.Errorf("%+v: %v GB", c, got)
		}
	}
	if _, err := planner.ParseAccounting("mxied"); err == nil {
		t.Error("an unknown accounting was found")
	}
}

const gib = 1 << 30

// Figures in DeepSpeed's documentation (Memory Requirements, under the Apache License 2.0: 2851M
// parameters, largest module 32M, 8 GPUs on one node; GiB, which it calls GB).
func TestDeepSpeedEstimators(t *testing.T) {
	want := []string{
		"shard_grad_op false true false 127.45 5.31", "shard_grad_op false false false 127.45 15.93",
		"full_shard true true true 71.69 0.12", "full_shard true true false 127.45 0.12",
		"full_shard false true true 63.72 0.78", "full_shard false true false 127.45 0.78",
		"full_shard false false true 1.43 6.09", "full_shard false false false 127.45 6.09",
	}
	for i, e := range planner.Estimates(2851e6, 32e6, 1, 8) {
		got := fmt.Sprintf("%s %t %t %t %.2f %.2f", e.Strategy, e.OffloadParam, e.OffloadOptimizer, e.ZeroInit, e.Host/gib, e.Device/gib)
		if got != want[i] {
			t.Errorf("row %d is %s, want %s", i, got, want[i])
		}
	}
}

// T5-small (60,506,624 parameters, embedding 32128 x 512) on one GPU, from a public note
// (blog.csdn.net/u012327567/article/details/132278598); ZeRO-2 on two nodes, where host bytes count the
// GPUs of all nodes with offload and of one node without (DeepSpeed, stage_1_and_2.py), and on one GPU;
// ZeRO-3 on two nodes of two GPUs without zero init (stage3.py).
func TestDeepSpeedOneGPU(t *testing.T) {
	want := [][2]float64{{1.52, 0.06}, {1.52, 0.06}, {1.35, 0.17}, {1.35, 0.17}, {0.09, 1.08}, {0.34, 1.08}}
	for i, e := range planner.Estimates(60506624, 32128*512, 1, 1)[2:] {
		if !printed(e.Host/gib, want[i][0]) || !printed(e.Device/gib, want[i][1]) {
			t.Errorf("row %d: %.3f GiB of the host, %.3f of the device, want %v", i, e.Host/gib, e.Device/gib, want[i])
		}
	}
	for _, c := range []struct{ nodes, perNode, row, bytes int }{{2, 8, 0, 4 * 16}, {2, 8, 1, 4 * 8}, {1, 1, 0, 16}, {2, 2, 3, 9}} {
		if e := planner.Estimates(1e9, 1e6, c.nodes, c.perNode)[c.row]; e.Host != 1e9*float64(c.bytes)*1.5 {
			t.Errorf("%+v: %v bytes of a host", c, e.Host)
		}
	}
}

// More figures, from the shared data: T5-3b (2,851,598,336 parameters, embedding 32128 x 1024), a
// T5-large, and values of the formulas.
func TestDeepSpeedOracle(t *testing.T) {
	path := filepath.Join("..", "..", "shared", "data", "oracles", "deepspeed_memory_estimators.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skip("no shared data: ", err)
	}
	type cells struct{ CPU, GPU float64 }
	type row struct {
		Nodes            int
		OffloadParam     int     `json:"offload_param"`
		OffloadOptimizer int     `json:"offload_optimizer"`
		ZeroInit         int     `json:"zero_init"`
		CPU              float64 `json:"cpu_GiB"`
		GPU              float64 `json:"gpu_GiB"`
		DocCPU           float64 `json:"doc_cpu_GiB"`
		DocGPU           float64 `json:"doc_gpu_GiB"`
	}
	var oracle struct {
		Cold2 map[string]cells   `json:"zero2_cold_2851M_1x8"`
		Live2 map[string]cells   `json:"zero2_live_t5_3b_1x8"`
		Cold3 []row              `json:"zero3_cold_2851M_L32M_1x8"`
		Live3 [][2]float64       `json:"zero3_live_t5_3b_1x8_doc"`
		Large map[string]float64 `json:"t5_large_gpu_MiB_4gpus"`
		Rows  []row              `json:"held_out_11B_L131M_8gpu_per_node_computed_from_formula"`
	}
	if err := json.Unmarshal(text, &oracle); err != nil {
		t.Fatal(err)
	}
	if len(oracle.Cold2) != 2 || len(oracle.Live2) != 2 || len(oracle.Cold3) != 6 || len(oracle.Live3) != 6 || len(oracle.Large) != 5 || len(oracle.Rows) != 18 {
		t.Fatalf("the shared data differs in size: %d %d %d %d %d %d", len(oracle.Cold2), len(oracle.Live2), len(oracle.Cold3), len(oracle.Live3), len(oracle.Large), len(oracle.Rows))
	}
	const t5, embedding = 2851598336, 32128 * 1024
	is := func(what string, e planner.Estimate, host, dev float64) {
		t.Helper()
		if !printed(e.Host/gib, host) || !printed(e.Device/gib, dev) {
			t.Errorf("%s: %.3f GiB of the host and %.3f of the device, want %v and %v", what, e.Host/gib, e.Device/gib, host, dev)
		}
	}
	find := func(all []planner.Estimate, r row) planner.Estimate {
		t.Helper()
		for _, e := range all[2:] {
			if e.OffloadParam == (r.OffloadParam == 1) && e.OffloadOptimizer == (r.OffloadOptimizer == 1) && e.ZeroInit == (r.ZeroInit == 1) {
				return e
			}
		}
		t.Fatalf("%+v: no such row", r)
		return planner.Estimate{}
	}
	for i, name := range []string{"offload_cpu", "none"} {
		is("ZeRO-2 "+name, planner.Estimates(2851e6, 0, 1, 8)[i], oracle.Cold2[name].CPU, oracle.Cold2[name].GPU)
		is("ZeRO-2 of T5-3b "+name, planner.Estimates(t5, 0, 1, 8)[i], oracle.Live2[name].CPU, oracle.Live2[name].GPU)
	}
	for _, r := range oracle.Cold3 {
		is(fmt.Sprintf("%+v", r), find(planner.Estimates(2851e6, 32e6, 1, 8), r), r.DocCPU, r.DocGPU)
	}
	for i, c := range oracle.Live3 {
		is(fmt.Sprint("ZeRO-3 of T5-3b, row ", i), planner.Estimates(t5, embedding, 1, 8)[2+i], c[0], c[1])
	}
	for _, r := range oracle.Rows {
		is(fmt.Sprintf("%+v", r), find(planner.Estimates(11e9, 131e6, r.Nodes, 8), r), r.CPU, r.GPU)
	}
	large := planner.Estimates(oracle.Large["params_M"]*1e6, oracle.Large["largest_layer_M"]*1e6, 1, 4)
	for name, r := range map[string]row{"case1": {ZeroInit: 1}, "case2": {OffloadParam: 1, OffloadOptimizer: 1, ZeroInit: 1}, "case3": {OffloadOptimizer: 1, ZeroInit: 1}} {
		if got := find(large, r).Device / (1 << 20); !printed(got, oracle.Large[name]) {
			t.Errorf("T5-large, %s: %v MiB of the device, want %v", name, got, oracle.Large[name])
		}
	}
}
