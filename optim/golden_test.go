package optim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"trireme/internal/backend/cpu"
	"trireme/internal/backend/naive"
	"trireme/optim"
	"trireme/optim/optimtest"
	"trireme/tensor"
)

// golden is testdata/optimizers.json, from make_optimizers.py.
type golden struct {
	Cases []struct {
		Optimizer   map[string]any
		LR          float64
		WeightDecay float64                         `json:"weight_decay"`
		Steps       map[string]map[string][]float64 // by step and parameter
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	data, err := os.ReadFile("testdata/optimizers.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// goldenShapes and fine are SHAPES and FINE of make_optimizers.py; goldenFirst is the first step
// with numbers.
var (
	goldenShapes = map[string]tensor.Shape{"w": {4, 6}, "b": {5}, "big": {600}}
	goldenFirst  = map[string]int{"w": 0, "b": 100, "big": 200}
	fine         = []int{10, 12, 8, 10, 18, 11, 7, 10, 13, 10, 9, 10}
)

func goldenValue(name string, i int) float32 {
	i += goldenFirst[name]
	return float32((i*31+17)%257-128) / 256
}

func goldenGrad(name string, t, i int) float32 {
	i += goldenFirst[name]
	return float32(math.Ldexp(float64((i*7919+(t+1)*104729)%2003-1001), -fine[t]))
}

// within returns the tolerance of a case, and the share of elements that may exceed float32
// rounding. Low-bit state may round the other way, bitsandbytes' CPU table is coarse, and the Muon
// reference computes in bfloat16.
func within(name string) (worst, share float64) {
	switch name {
	case "muon":
		return 5e-6, 0.1
	case "adamw_8bit":
		return 1e-3, 0.05
	case "adamw_bf16":
		return 5e-4, 0.1
	}
	return rounding, 0
}

// rounding is float32's error after 12 steps of numbers near 1.
const rounding = 2e-6

// TestGolden compares parameters with the reference implementation of each optimizer.
func TestGolden(t *testing.T) {
	fast, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	for name, b := range map[string]tensor.Backend{"cpu": fast, "naive": naive.New()} {
		t.Run(name, func(t *testing.T) {
			for _, c := range readGolden(t).Cases {
				config := optim.Config(c.Optimizer)
				if len(c.Steps["1"]["big"]) > 0 {
					config["min_8bit_size"] = 1.0
				}
				o, err := config.Make(optim.AdamDefaults{Betas: [2]float64{0.9, 0.999}, Eps: 1e-8})
				if err != nil {
					t.Errorf("%v: %v", c.Optimizer, err)
					continue
				}
				for parameter := range c.Steps["1"] {
					trained(t, b, o, c.LR, c.WeightDecay, parameter, func(step int, got []float32, _ []*tensor.Tensor) {
						off, expected := 0, c.Steps[fmt.Sprint(step)][parameter]
						worst, share := within(o.Name())
						for i, want := range expected {
							d := math.Abs(float64(got[i])-want) / max(1, math.Abs(want))
							if d > rounding {
								off++
							}
							if !(d <= worst) {
								t.Errorf("%v: step %d: %s[%d] is %v, want %v", c.Optimizer, step, parameter, i, got[i], want)
								return
							}
						}
						if float64(off) > share*float64(len(expected)) {
							t.Errorf("%v: step %d: %d of %d elements of %s differ by more than %v", c.Optimizer, step, off, len(expected), parameter, rounding)
						}
					})
				}
			}
		})
	}
}

// trained runs all steps and calls see after each.
func trained(t *testing.T, b tensor.Backend, o optim.Optimizer, lr, decay float64, name string, see func(step int, p []float32, state []*tensor.Tensor)) {
	t.Helper()
	shape := goldenShapes[name]
	n := shape.Elems()
	if name == "b" {
		decay = 0
	}
	how := optim.Grouping{Optimizer: o}.Of(optim.Param{Name: name, Shape: shape, Hidden: len(shape) == 2})
	s := optim.Slice{P: b.New(tensor.Params, tensor.F32, n), G: b.New(tensor.Grads, tensor.F32, n), Ends: b.New(tensor.Workspace, tensor.I64, 1)}
	b.Upload(s.Ends, tensor.AsBytes([]int64{int64(n)}))
	p, g := make([]float32, n), make([]float32, n)
	for i := range p {
		p[i] = goldenValue(name, i)
	}
	b.Upload(s.P, tensor.AsBytes(p))
	s.State = optimtest.State(b, how.Optimizer, shape)
	hyper, scalars := b.New(tensor.Workspace, tensor.F64, 1, len(how.Optimizer.Hyper(0, 0, 1))), b.New(tensor.Workspace, tensor.F64, tensor.ScalarCount)
	v := make([]float64, tensor.ScalarCount)
	v[tensor.ScalarScale], v[tensor.ScalarApply] = 0.5, 1
	b.Upload(scalars, tensor.AsBytes(v))
	for step := range fine {
		for i := range g {
			g[i] = 2 * goldenGrad(name, step, i)
		}
		b.Upload(s.G, tensor.AsBytes(g))
		b.Upload(hyper, tensor.AsBytes(how.Optimizer.Hyper(lr, decay, step+1)))
		optimtest.Step(b, how.Optimizer, shape, s, hyper, scalars)
		b.Download(tensor.AsBytes(p), s.P)
		see(step+1, p, s.State)
	}
	for _, x := range append(s.State, s.P, s.G, s.Ends, hyper, scalars) {
		x.Release()
	}
}

// The average follows its formula and does not affect the optimizer.
func TestAveraged(t *testing.T) {
	b := naive.New()
	plain := optim.SGD{Momentum: 0.9}
	for _, ema := range []optim.EMA{{Decay: 0.9}, {Decay: 0.5, UpdateAfterStep: 4}, {Decay: 0.9, UseWarmup: true, UpdateAfterStep: 2}} {
		var want [][]float32
		trained(t, b, plain, 0.1, 0, "w", func(_ int, p []float32, _ []*tensor.Tensor) { want = append(want, slices.Clone(p)) })
		average := make([]float64, len(want[0]))
		trained(t, b, optim.Averaged{Optimizer: plain, EMA: ema}, 0.1, 0, "w", func(step int, p []float32, state []*tensor.Tensor) {
			keep := ema.Decay
			n := step - 1 - ema.UpdateAfterStep
			if n <= 0 {
				keep = 0
			} else if ema.UseWarmup {
				keep = min(keep, float64(1+n)/float64(10+n))
			}
			for i := range p {
				average[i] = keep*average[i] + (1-keep)*float64(want[step-1][i])
				if p[i] != want[step-1][i] {
					t.Fatalf("%+v: step %d: parameter %d is %v with the average, %v without", ema, step, i, p[i], want[step-1][i])
				}
				if got := float64(tensor.Host[float32](state[1])[i]); math.Abs(got-average[i]) > 1e-6 {
					t.Fatalf("%+v: step %d: the average of %d is %v, want %v", ema, step, i, got, average[i])
				}
			}
		})
	}
}

// TestSkippedStep: a skipped step changes no parameter or state, whatever the gradient.
func TestSkippedStep(t *testing.T) {
	fast, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	for _, name := range (optim.Config{}).Choices() {
		for _, config := range []optim.Config{{"name": name}, {"name": name, "momentum": 0.9}, {"name": name, "beta1": 0.9}, {"name": name, "min_8bit_size": 1.0}} {
			o, err := config.Make(optim.AdamDefaults{Betas: [2]float64{0.9, 0.95}, Eps: 1e-8})
			if err != nil {
				continue // belongs to another optimizer
			}
			for parameter, shape := range goldenShapes {
				skipped := optim.Averaged{Optimizer: o, EMA: optim.EMA{Decay: 0.5}}.For(optim.Param{Name: parameter, Shape: shape, Hidden: len(shape) == 2})
				n := shape.Elems()
				s := optim.Slice{P: fast.New(0, tensor.F32, n), G: fast.New(0, tensor.F32, n), Ends: fast.New(0, tensor.I64, 1), State: optimtest.State(fast, skipped, shape)}
				fast.Fill(s.Ends, float64(n))
				fast.Fill(s.P, 0.25)
				hyper, scalars := fast.New(0, tensor.F64, 1, len(skipped.Hyper(0, 0, 1))), fast.New(0, tensor.F64, tensor.ScalarCount)
				step := func(t int, gradient, apply float64) (bits []byte) {
					fast.Fill(s.G, gradient)
					fast.Upload(hyper, tensor.AsBytes(skipped.Hyper(0.1, 0.1, t)))
					v := make([]float64, tensor.ScalarCount)
					v[tensor.ScalarScale], v[tensor.ScalarApply] = apply, apply
					fast.Upload(scalars, tensor.AsBytes(v))
					optimtest.Step(fast, skipped, shape, s, hyper, scalars)
					for _, x := range append(s.State, s.P) {
						bits = append(bits, tensor.HostBytes(x)...)
					}
					return bits
				}
				before := step(1, 0.5, 1)
				if after := step(2, math.NaN(), 0); !bytes.Equal(before, after) {
					t.Errorf("%v: a skipped step changes %s or its state", config, parameter)
				}
				if after := step(2, 0.25, 1); bytes.Equal(before, after) {
					t.Errorf("%v: a step does not change %s", config, parameter)
				}
				for _, x := range append(s.State, s.P, s.G, s.Ends, hyper, scalars) {
					x.Release()
				}
			}
		}
	}
}

// TestLAMBOfZeros: with a zero norm of the parameter or direction, the ratio is 1.
func TestLAMBOfZeros(t *testing.T) {
	b := naive.New()
	o := optim.LAMB{Beta1: 0.9, Beta2: 0.999, Eps: 1e-30, Min: 0.01, Max: 10, Uncorrected: true}
	for _, c := range []struct{ p, g, want float64 }{{0, 2, -0.1 * 0.2 / (2 * math.Sqrt(0.001))}, {3, 0, 3}} {
		n := 4
		s := optim.Slice{P: b.New(0, tensor.F32, n), G: b.New(0, tensor.F32, n), Ends: b.New(0, tensor.I64, 1), State: optimtest.State(b, o, tensor.Shape{n})}
		b.Fill(s.Ends, float64(n))
		b.Fill(s.P, c.p)
		b.Fill(s.G, c.g)
		hyper, scalars := b.New(0, tensor.F64, 1, tensor.DescentCount), b.New(0, tensor.F64, tensor.ScalarCount)
		b.Upload(hyper, tensor.AsBytes(o.Hyper(0.1, 0, 1)))
		b.Fill(scalars, 1)
		optimtest.Step(b, o, tensor.Shape{n}, s, hyper, scalars)
		for i, got := range tensor.Host[float32](s.P) {
			if math.Abs(float64(got)-c.want) > 1e-5 {
				t.Errorf("parameter %v, gradient %v: element %d becomes %v, want %v", c.p, c.g, i, got, c.want)
			}
		}
	}
}
