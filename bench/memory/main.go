// Command memory trains small models for two steps each and prints planned and measured memory, the
// table of docs/plan.md.
//
//	go build -o trireme ./cmd/trireme && go run ./bench/memory --trireme ./trireme
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

type network struct {
	family string
	config map[string]any
}

func networks() []network {
	var all []network
	for _, s := range []struct{ vocab, hidden, layers int }{{2048, 192, 4}, {8192, 384, 6}, {16384, 640, 10}} {
		all = append(all,
			network{"llama", map[string]any{
				"architectures": []string{"LlamaForCausalLM"}, "vocab_size": s.vocab, "hidden_size": s.hidden, "intermediate_size": s.hidden * 8 / 3,
				"num_hidden_layers": s.layers, "num_attention_heads": s.hidden / 64, "max_position_embeddings": positions,
			}},
			network{"gpt2", map[string]any{
				"architectures": []string{"GPT2LMHeadModel"}, "vocab_size": s.vocab, "n_embd": s.hidden, "n_layer": s.layers, "n_head": s.hidden / 64, "n_positions": positions,
			}},
			network{"bert", map[string]any{
				"architectures": []string{"BertForMaskedLM"}, "vocab_size": s.vocab, "hidden_size": s.hidden, "intermediate_size": 4 * s.hidden,
				"num_hidden_layers": s.layers, "num_attention_heads": s.hidden / 64, "max_position_embeddings": positions,
			}})
	}
	return all
}

const (
	positions = 256
	micro     = 4
)

type setup struct {
	ranks           int
	strategy, dtype string
	recompute       bool
}

var setups = []setup{
	{1, "no_shard", "float32", false},
	{2, "no_shard", "bfloat16", false},
	{2, "zero_1", "float32", true},
	{2, "shard_grad_op", "bfloat16", false},
	{2, "full_shard", "float32", false},
	{4, "full_shard", "float32", true},
	{4, "hybrid_shard", "bfloat16", true},
}

// report is the part of train's report that is compared.
type report struct {
	Parameters int64
	Planned    map[string]int64
	Memory     []struct {
		Rank     int
		Peak     map[string]int64
		Total    int64
		Resident int64 `json:"rss_peak"`
		Shared   int64 `json:"rss_shared"`
	}
}

func main() {
	program := flag.String("trireme", "./trireme", "the program")
	families := flag.String("families", "llama,gpt2,bert", "families to train")
	flag.Parse()
	if err := run(*program, strings.Split(*families, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(program string, families []string) (err error) {
	dir, err := os.MkdirTemp("", "memory")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println(`| family | parameters | ranks | strategy | type | recomputed | planned | measured | categories that differ | resident | over the plan |
|---|---|---|---|---|---|---|---|---|---|---|`)
	worst, most := 0.0, 0.0
	for _, family := range families {
		for _, n := range networks() {
			if n.family != family {
				continue
			}
			for _, d := range setups {
				o, err := train(program, dir, n, d)
				if err != nil {
					return err
				}
				over, beyond := o.print(n, d)
				worst, most = max(worst, over), max(most, beyond)
			}
		}
	}
	fmt.Printf("\nMaximum over the plan: %.0f MiB; over the plan plus 10%%: %.0f MiB.\n", worst, most)
	return nil
}

func train(program, dir string, n network, d setup) (*report, error) {
	rows, config := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "run.json")
	if err := os.WriteFile(rows, randomRows(n.config["vocab_size"].(int), n.family == "bert"), 0o600); err != nil {
		return nil, err
	}
	output := filepath.Join(dir, "out") // reused by every run
	defer os.RemoveAll(output)
	parallel := map[string]any{"strategy": d.strategy}
	if d.strategy == "hybrid_shard" { // as on two machines
		parallel["mesh"] = map[string]any{"replicate": 2}
	}
	text, err := json.Marshal(map[string]any{
		"model":                    map[string]any{"inline": n.config},
		"data":                     map[string]any{"path": rows, "sequence_length": positions},
		"training":                 map[string]any{"micro_batch_size": micro, "gradient_accumulation_steps": 2, "max_steps": 2},
		"parallel":                 parallel,
		"precision":                map[string]any{"param_dtype": d.dtype},
		"activation_checkpointing": map[string]any{"enabled": d.recompute},
		"logging":                  map[string]any{"tensorboard": false},
		"device":                   map[string]any{"threads": 1},
		"output_dir":               output,
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	c := exec.Command(program, "train", "--config", config, "--nproc", fmt.Sprint(d.ranks), "--json")
	var errs strings.Builder
	c.Stderr = &errs
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s, %+v: %w\n%s", n.family, d, err, errs.String())
	}
	var o report
	return &o, json.Unmarshal(b, &o)
}

// randomRows returns rows of random tokens; for masked models, one in seven has a label.
func randomRows(vocab int, masked bool) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var out []byte
	for range 64 {
		row := map[string][]int{"input_ids": nil}
		for i := range positions {
			id, label := rng.IntN(vocab), -100
			if i%7 == 0 {
				label = id
			}
			row["input_ids"] = append(row["input_ids"], id)
			if masked {
				row["labels"] = append(row["labels"], label)
			}
		}
		line, _ := json.Marshal(row) // cannot fail
		out = append(append(out, line...), '\n')
	}
	return out
}

const mib = 1 << 20

// print writes a table line for the rank with the most memory. It returns, in MiB, how much the resident
// memory exceeds the plan, and the plan plus 10%.
func (o *report) print(n network, d setup) (over, beyond float64) {
	plan := o.Planned["total"]
	shared := o.Planned["parameters"] + o.Planned["gradients"] + o.Planned["buckets"]
	measured, resident, differ := int64(0), int64(0), map[string]bool{}
	for _, m := range o.Memory {
		measured = max(measured, m.Total)
		own := m.Resident
		if m.Shared > 0 { // do not count other ranks' shared memory
			own += shared - m.Shared
		}
		resident = max(resident, own)
		for c, bytes := range m.Peak {
			if bytes != o.Planned[c] {
				differ[c] = true
			}
		}
	}
	var names []string
	for c := range differ {
		names = append(names, c)
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	over = float64(resident-plan) / mib
	recomputed := "no"
	if d.recompute {
		recomputed = "yes"
	}
	fmt.Printf("| %s | %.1f M | %d | %s | %s | %s | %.1f MiB | %.1f MiB | %s | %.0f MiB | %.0f MiB |\n", n.family, float64(o.Parameters)/1e6, d.ranks, d.strategy, d.dtype,
		recomputed, float64(plan)/mib, float64(measured)/mib, strings.Join(names, ", "), float64(resident)/mib, over)
	return over, over - math.Max(0, float64(plan))/mib/10
}
