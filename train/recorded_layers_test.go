package train_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"trireme/internal/backend/record"
	"trireme/optim"
	"trireme/train"
)

var layerCount = regexp.MustCompile(`("num_hidden_layers"|"n_layer"): (\d+)`)

// deeper is the task with more layers.
func (c recordedTask) deeper(by int) recordedTask {
	c.config = layerCount.ReplaceAllStringFunc(c.config, func(text string) string {
		m := layerCount.FindStringSubmatch(text)
		n, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("%s: %d", m[1], n+by)
	})
	return c
}

// persistent counts the buffers of a step's programs that outlive them, by kind and use.
func persistent(programs []*record.Recording) map[string]int {
	counts := map[string]int{}
	for i, p := range programs {
		for _, b := range p.Buffers {
			if b.Kind != record.Temporary {
				counts[fmt.Sprintf("program %d: %v %v", i, b.Kind, b.Cat)]++
			}
		}
	}
	return counts
}

// Programs of deeper models have an equal number of buffers: layers have their state in common ones, so a loop over
// layers can address it.
func TestRecordedLayers(t *testing.T) {
	oneGoroutine(t)
	type options struct {
		name   string
		change func(c *train.Config, task string)
	}
	all := []options{
		{"float16", func(c *train.Config, _ string) {
			c.Precision = train.Precision{ParamDType: "float16", ReduceDType: "float16", BufferDType: "float32"}
		}},
		{"bfloat16", func(c *train.Config, _ string) {
			c.Precision = train.Precision{ParamDType: "bfloat16", ReduceDType: "float32", BufferDType: "bfloat16"}
		}},
		{"recomputed", func(c *train.Config, _ string) {
			c.Recompute = train.Recompute{Enabled: true, EveryNLayers: 1, Part: "layer", Store: "memory"}
		}},
		{"8-bit state", func(c *train.Config, _ string) {
			c.Training.Optimizer = optim.Config{"name": "adamw_8bit", "min_8bit_size": 0.0}
		}},
		{"groups", func(c *train.Config, task string) {
			norms := map[string]string{"gpt2": "*ln_*", "bert": "*LayerNorm*"}[strings.Fields(task)[0]]
			if norms == "" {
				norms = "*norm*"
			}
			c.Training.ParameterGroups = []optim.GroupConfig{{Match: norms, LRFactor: new(0.5), Optimizer: optim.Config{"name": "adagrad"}}}
		}},
		{"not world-invariant", func(c *train.Config, _ string) { c.Parallel.WorldInvariant = false }},
		{"kept by two", func(c *train.Config, _ string) { c.Parallel.ReshardAfterForward = 2 }},
	}
	for _, name := range (optim.Config{}).Choices() {
		all = append(all, options{name + " with an average", func(c *train.Config, _ string) {
			c.Training.Optimizer, c.Training.EMA.Decay = optim.Config{"name": name}, 0.9
		}})
	}
	strategies := []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard", "hybrid_shard_zero2"}
	for i, o := range all {
		for j, task := range recordedTasks {
			strategy := strategies[(i+j)%len(strategies)]
			t.Run(fmt.Sprintf("%s/%s/%s", o.name, task.name, strategy), func(t *testing.T) {
				var counts [2]map[string]int
				for k := range counts {
					c := recordedCase{recordedTask: task.deeper(2 * k), world: 4, accum: 2, config: train.Default()}
					c.config.Parallel.Strategy, c.config.Training.MicroBatchSize = strategy, recordedRows
					o.change(&c.config, task.name)
					counts[k] = persistent(c.record(t, c.open(t, true), func(k *recordedRank, r int) error { return c.step(k, r, 0) })[0])
				}
				for what, n := range counts[1] {
					if n != counts[0][what] {
						t.Errorf("%s: %d buffers, and %d with two layers less", what, n, counts[0][what])
					}
				}
			})
		}
	}
}
