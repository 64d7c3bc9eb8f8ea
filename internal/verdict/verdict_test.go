package verdict

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trireme/monitor"
)

// healthy returns the curve of a healthy run of n steps.
func healthy(n int, seed uint64) Input {
	r := rand.New(rand.NewPCG(seed, 1))
	in := Input{MaxSteps: int64(n), Metrics: map[string][]float64{}, Config: map[string]string{"training.learning_rate": "0.001", "training.max_grad_norm": "1.0", "training.micro_batch_size": "4"}}
	for i := range n {
		x := float64(i) / float64(n)
		in.Steps = append(in.Steps, float64(i+1))
		warm := min(1, float64(i+1)/float64(n/10+1))
		for name, v := range map[string]float64{
			"loss": 2 + 5*math.Exp(-6*x) + 0.05*r.NormFloat64(), "grad_norm": 0.5 + 0.1*r.Float64(), "lr": 0.001 * warm * (1 - max(0, x-0.2)/2), "samples": 8, "tokens": 1024,
			"step_seconds": 0.1 + 0.002*r.Float64(), "time": 1e9 + 0.1*float64(i), "mfu": 0.4, "rss": 1e9, "memory_limit": 8e9,
			"split.data": 0.001, "split.forward": 0.03, "split.backward": 0.06, "split.comm": 0.002, "split.wait": 0.002, "split.optimizer": 0.005,
			"comm_ops.all_gather/shard.exposed": 0.003, "comm_ops.all_gather/shard.seconds": 0.01, "comm_ops.all_gather/shard.bytes": 1e7,
			"comm_ops.reduce_scatter/shard.exposed": 0.001, "comm_ops.reduce_scatter/shard.seconds": 0.01,
			"ranks.own.0": 0.1, "ranks.own.1": 0.1, "ranks.own.2": 0.1, "ranks.data.0": 0.001, "ranks.data.1": 0.001, "ranks.data.2": 0.001, "ranks.save.0": 0, "ranks.save.1": 0, "ranks.save.2": 0,
			"host.disk_free": 1e12,
		} {
			in.Metrics[name] = append(in.Metrics[name], v)
		}
	}
	return in
}

// evaluate adds an evaluation after every k-th step.
func evaluate(in Input, k int, loss func(step float64) float64) Input {
	out := in
	out.Steps, out.Metrics = nil, map[string][]float64{}
	for i, step := range in.Steps {
		out.Steps = append(out.Steps, step)
		for name, v := range in.Metrics {
			out.Metrics[name] = append(out.Metrics[name], v[i])
		}
		out.Metrics["eval_loss"] = append(out.Metrics["eval_loss"], math.NaN())
		if (i+1)%k != 0 {
			continue
		}
		out.Steps = append(out.Steps, step)
		for name := range in.Metrics {
			out.Metrics[name] = append(out.Metrics[name], math.NaN())
		}
		out.Metrics["eval_loss"] = append(out.Metrics["eval_loss"], loss(step))
	}
	return out
}

func kinds(r Report, least Severity) (out []string) {
	for _, f := range r.Findings {
		if f.Severity == Error || f.Severity == Warning && least != Error || least == Info {
			out = append(out, f.Kind)
		}
	}
	return out
}

// each changes each value of a metric.
func each(name string, f func(i int, v float64) float64) func(Input) Input {
	return func(in Input) Input {
		for i, v := range in.Metrics[name] {
			in.Metrics[name][i] = f(i, v)
		}
		return in
	}
}

// end is of a run of more steps that has a checkpoint of step 900 and other events.
func end(steps int64, more ...monitor.Event) func(Input) Input {
	return func(in Input) Input {
		in.MaxSteps = steps
		in.Events = append([]monitor.Event{{Kind: monitor.EventStart}, {Kind: monitor.EventCheckpoint, Step: 900}}, more...)
		return in
	}
}

func exit(code int) monitor.Event { return monitor.Event{Kind: monitor.EventStop, Exit: &code} }

func TestHealthy(t *testing.T) {
	for seed := range uint64(20) {
		for _, n := range []int{5, 40, 300, 3000} {
			r := Judge(healthy(n, seed))
			want := Healthy
			if n < minSteps {
				want = TooShort
			}
			if r.Health != want {
				t.Errorf("seed %d, %d steps: %s: %+v", seed, n, r.Health, r.Findings)
			}
			if n >= 40 && r.Speed.Limit != "compute" {
				t.Errorf("speed: %+v", r.Speed)
			}
			r = Judge(evaluate(healthy(n, seed), max(1, n/10), func(step float64) float64 { return 2.1 + 5*math.Exp(-6*step/float64(n)) }))
			if r.Health != want {
				t.Errorf("seed %d, %d steps with evaluations: %s: %+v", seed, n, r.Health, r.Findings)
			}
		}
	}
}

func TestFindings(t *testing.T) {
	const n = 1000
	for _, c := range []struct {
		name     string
		change   func(Input) Input
		kind     string
		severity Severity
		health   Health
		contains string
	}{
		{"diverges", each("loss", func(i int, v float64) float64 { return v + 6*max(0, float64(i)-600)/400 }), "divergence", Error, Unhealthy, "around step 58"},
		{"spike", each("loss", func(i int, v float64) float64 {
			if i == 700 {
				return v + 3
			}
			return v
		}), "spike", Info, Healthy, "step 701 (5.0"},
		{"samples of a spike", each("loss", func(i int, v float64) float64 {
			if i == 700 {
				return v + 3
			}
			return v
		}), "spike", Info, Healthy, "samples 5600 to 5607"},
		{"batch of a spike", func(in Input) Input {
			in.Dir = "runs/a-1"
			in.Metrics["loss"][700] += 3
			return in
		}, "spike", Info, Healthy, "trireme data show --config runs/a-1/config.yaml --step 701 -n 8"},
		{"above its start", each("loss", func(i int, v float64) float64 {
			if i < 4 {
				return 4.2
			}
			return 10 + float64(i*7919%13)
		}), "divergence", Error, Unhealthy, "never fell below its start: 4.2"},
		{"stopped", end(1400, exit(75)), "ended", Info, Healthy, "stopped at step 1000 of 1400; its last checkpoint is of step 900"},
		{"interrupted", end(1400, exit(130)), "ended", Info, Healthy, "stopped at step 1000 of 1400"},
		{"failed", end(1400, exit(1)), "ended", Warning, Doubtful, "failed at step 1000 of 1400 with code 1"},
		{"killed", end(1400), "ended", Warning, Doubtful, "without a record of its end"},
		{"spikes", each("loss", func(i int, v float64) float64 {
			if i > 300 && i%50 == 0 {
				return v + 3
			}
			return v
		}), "spike", Warning, Doubtful, "spikes of the loss"},
		{"flat", each("loss", func(i int, v float64) float64 { return 7 + 0.05*math.Sin(float64(i*i)) }), "plateau", Warning, Doubtful, "does not fall"},
		{"lr", each("lr", func(i int, v float64) float64 { return 0.0005 * float64(i) / n }), "lr", Warning, Doubtful, "not 0.001"},
		{"clipping", each("grad_norm", func(i int, v float64) float64 { return 40 * v }), "clipping", Warning, Doubtful, "100% of the later steps"},
		{"memory", each("rss", func(i int, v float64) float64 { return 7.8e9 }), "memory", Warning, Doubtful, "resident memory"},
		{"disk", each("host.disk_free", func(i int, v float64) float64 { return 1e8 }), "disk", Warning, Doubtful, "free on the disk"},
		{"slowing", each("step_seconds", func(i int, v float64) float64 { return v * (1 + float64(i)/n) }), "slowing", Warning, Doubtful, "longer"},
		{"stall", each("time", func(i int, v float64) float64 {
			if i >= 500 {
				return v + 3600
			}
			return v
		}), "stall", Warning, Doubtful, "before step 501"},
		{"stop and resume", func(in Input) Input {
			in.Events = []monitor.Event{{Time: time.Unix(1e9+60, 0), Kind: monitor.EventResume}}
			return each("time", func(i int, v float64) float64 {
				if i >= 500 {
					return v + 3600
				}
				return v
			})(in)
		}, "", "", Healthy, ""},
		{"skipped", func(in Input) Input {
			in.NonFinite, in.FirstNonFinite = 3, 17
			return in
		}, "nan", Warning, Doubtful, "first in step 17"},
		{"nan", func(in Input) Input {
			in.NonFinite, in.FirstNonFinite = 400, 601
			return each("loss", func(i int, v float64) float64 {
				if i >= 600 {
					return math.NaN()
				}
				return v
			})(in)
		}, "nan", Error, Unhealthy, "400 of 1000"},
		{"begins at a late checkpoint", func(in Input) Input {
			in = each("lr", func(i int, v float64) float64 { return 0.0005 * (1 - float64(i)/n) })(in)
			for i := range in.Steps {
				in.Steps[i] += n
			}
			return in
		}, "", Info, Healthy, ""},
		{"loss scale", func(in Input) Input {
			for i := range in.Steps {
				in.Metrics["loss_scale"] = append(in.Metrics["loss_scale"], 65536*math.Exp2(-float64(i/30)))
			}
			return in
		}, "loss_scale", Error, Unhealthy, "float16"},
		{"overfitting", func(in Input) Input {
			return evaluate(in, 100, func(step float64) float64 { return 2.5 + math.Abs(step-400)/400 })
		}, "overfitting", Warning, Doubtful, "at step 400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Judge(c.change(healthy(n, 3)))
			if r.Health != c.health {
				t.Errorf("%s: %+v", r.Health, r.Findings)
			}
			found := c.kind == ""
			for _, f := range r.Findings {
				found = found || f.Kind == c.kind && f.Severity == c.severity && strings.Contains(f.Text+f.Advice, c.contains)
			}
			if !found {
				t.Errorf("no %s %s with %q: %+v", c.severity, c.kind, c.contains, r.Findings)
			}
		})
	}
}

// A planted limit is named.
func TestSpeed(t *testing.T) {
	set := func(values map[string]float64) func(Input) Input {
		return func(in Input) Input {
			for name, v := range values {
				in.Metrics[name] = make([]float64, len(in.Steps))
				for i := range in.Steps {
					in.Metrics[name][i] = v
				}
			}
			return in
		}
	}
	for _, c := range []struct {
		name, limit, contains string
		rank                  int
		change                func(Input) Input
	}{
		{"compute", "compute", "MFU 40.0%", -1, set(nil)},
		{"data", "data", "loader 40%", -1, set(map[string]float64{"split.data": 0.04})},
		{"disk", "disk", "checkpoints take 33%", -1, set(map[string]float64{"save_seconds": 0.05})},
		{"checkpoints in memory", "memory", "checkpoints in memory take 30%", -1, set(map[string]float64{"save_seconds": 0.05, "memory_save_seconds": 0.045})},
		{"few checkpoints in memory", "disk", "checkpoints take 33%", -1, set(map[string]float64{"save_seconds": 0.05, "memory_save_seconds": 0.01})},
		{"rank", "rank", "rank 2: the others wait 37%", 2, set(map[string]float64{"split.wait": 0.06, "step_seconds": 0.16, "ranks.own.2": 0.16})},
		{"short delays", "rank", "short delays: the ranks wait 37% of the time for one another", -1, set(map[string]float64{"split.wait": 0.06, "step_seconds": 0.16, "ranks.own.2": 0.103})},
		{"reader of a rank", "data", "the loader of rank 1", 1, set(map[string]float64{"split.wait": 0.06, "step_seconds": 0.16, "ranks.own.1": 0.16, "ranks.data.1": 0.06})},
		{"disk of a rank", "disk", "disk of rank 1", 1, set(map[string]float64{"split.wait": 0.06, "step_seconds": 0.16, "ranks.own.1": 0.16, "ranks.save.1": 0.06})},
		{"link", "link", "all_gather on axis shard", -1, set(map[string]float64{"split.comm": 0.05, "step_seconds": 0.15, "comm_ops.all_gather/shard.exposed": 0.05, "comm_ops.all_gather/shard.seconds": 0.05})},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Judge(c.change(healthy(200, 3))).Speed
			if s.Limit != c.limit || s.Rank != c.rank {
				t.Errorf("%+v, want %s of rank %d", s, c.limit, c.rank)
			}
			if !strings.Contains(s.Text, c.contains) {
				t.Errorf("%q does not have %q", s.Text, c.contains)
			}
		})
	}
	old := healthy(200, 3) // records without split
	for name := range old.Metrics {
		if strings.HasPrefix(name, "split.") || strings.HasPrefix(name, "ranks.") || strings.HasPrefix(name, "comm_ops.") {
			delete(old.Metrics, name)
		}
	}
	s := Judge(set(map[string]float64{"comm_fraction": 0.4, "data_fraction": 0.01, "skew": 1.5, "slow_rank": 3})(old)).Speed
	if s.Limit != "rank" || s.Rank != 3 {
		t.Errorf("%+v", s)
	}
}

// The golden runs of train are healthy.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("../../train/testdata/golden/*/case.json")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	shared, _ := filepath.Glob("../../../shared/data/golden/*/case.json")
	for _, file := range append(files, shared...) {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c struct {
				Hyperparameters struct {
					LR   float64
					Clip float64 `json:"max_grad_norm"`
				}
				Expected []struct {
					Step, Loss, LR float64
					Norm           float64 `json:"grad_norm"`
				}
			}
			if err := json.Unmarshal(b, &c); err != nil {
				t.Fatal(err)
			}
			in := Input{Metrics: map[string][]float64{}, MaxSteps: int64(len(c.Expected)), Config: map[string]string{"training.learning_rate": fmt.Sprint(c.Hyperparameters.LR), "training.max_grad_norm": fmt.Sprint(c.Hyperparameters.Clip)}}
			for _, e := range c.Expected {
				in.Steps = append(in.Steps, e.Step)
				for name, v := range map[string]float64{"loss": e.Loss, "grad_norm": e.Norm, "lr": e.LR} {
					in.Metrics[name] = append(in.Metrics[name], v)
				}
			}
			if got := kinds(Judge(in), Warning); len(in.Steps) == 0 || len(got) > 0 {
				t.Errorf("%d steps: %q", len(in.Steps), got)
			}
		})
	}
}

// Any numbers give some report.
func FuzzJudge(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), uint8(40))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		in := healthy(int(n), 1)
		i := 0
		for _, name := range []string{"loss", "grad_norm", "lr", "step_seconds", "time", "samples", "tokens", "split.comm", "ranks.own.1"} {
			for k := range in.Metrics[name] {
				if len(b) > 0 {
					v := b[i%len(b)]
					i++
					in.Metrics[name][k] = map[byte]float64{0: math.NaN(), 1: math.Inf(1), 2: -1, 3: 0, 4: math.MaxFloat64}[v%8]
				}
			}
		}
		Judge(in)
	})
}
