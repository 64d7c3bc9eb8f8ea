package cudnn

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// fake runs calls as their documentation describes them, from the call's text alone.
type fake struct {
	tensor.Backend
	t     *testing.T
	calls int
}

type fakeConfig struct {
	FMHA struct {
		Scale    float64 `json:"fmha_scale"`
		Mask     string  `json:"mask_type"`
		Window   int     `json:"sliding_window_length"`
		Segments int     `json:"max_seg_per_batch"`
	} `json:"cudnn_fmha_backend_config"`
}

func (f *fake) Call(c Call, results, operands []*tensor.Tensor) {
	f.calls++
	var config fakeConfig
	if err := json.Unmarshal([]byte(c.Config), &config); err != nil {
		f.t.Fatal(err)
	}
	for i, x := range append(append([]*tensor.Tensor{}, operands...), results...) {
		want := append(append([]Type{}, c.Operands...), c.Results...)
		if i >= len(operands) {
			i, want = i-len(operands), c.Results
		}
		if x.DType() != want[i].DType || x.Elems() != want[i].Shape.Elems() || !x.Contiguous() {
			f.t.Errorf("%s: %v for %v", c.Target, x, want[i])
		}
	}
	m := config.FMHA
	backward := strings.HasSuffix(c.Target, "Backward")
	shape, kvHeads := c.Operands[0].Shape, c.Operands[1].Shape[2]
	t, heads, e := shape[1], shape[2], shape[3]
	segments := shape[0] * m.Segments
	q, k, v := f.read(operands[0]), f.read(operands[1]), f.read(operands[2])
	bounds := operands[3:]
	stats, do, o := make([]float64, segments*heads*t), []float64{}, make([]float64, len(q))
	if backward {
		stats, do, o, bounds = f.read(operands[3]), f.read(operands[4]), f.read(operands[5]), operands[6:]
	}
	nan := func(x []float64) []float64 {
		for i := range x {
			x[i] = math.NaN()
		}
		return x
	}
	if !backward {
		nan(o)
		nan(stats)
	}
	dq, dk, dv := nan(make([]float64, len(q))), nan(make([]float64, len(k))), nan(make([]float64, len(v)))
	for s := range segments {
		n, at, kvAt := t, s*t*heads*e, s*t*kvHeads*e
		if strings.HasPrefix(m.Mask, "PADDING") {
			n = int(f.read(bounds[0])[s])
		}
		if m.Segments > 1 {
			at, kvAt = int(f.read(bounds[2])[s]), int(f.read(bounds[3])[s])
		}
		clear(dk[kvAt:][:n*kvHeads*e])
		clear(dv[kvAt:][:n*kvHeads*e])
		for h := range heads {
			kh := h / (heads / kvHeads)
			row := func(i int) int { return at + (i*heads+h)*e }
			kvRow := func(j int) int { return kvAt + (j*kvHeads+kh)*e }
			for i := range n {
				scores, top := make([]float64, n), math.Inf(-1)
				for j := range n {
					scores[j] = m.Scale * dot(q[row(i):][:e], k[kvRow(j):])
					if strings.HasSuffix(m.Mask, "CAUSAL") && j > i || m.Window > 0 && j <= i-m.Window {
						scores[j] = math.Inf(-1)
					}
					top = max(top, scores[j])
				}
				sum := 0.0
				for _, x := range scores {
					sum += math.Exp(x - top)
				}
				stat := &stats[(s*heads+h)*t+i]
				if !backward {
					*stat = top + math.Log(sum)
					clear(o[row(i):][:e])
				} else {
					clear(dq[row(i):][:e])
				}
				for j := range n {
					w := math.Exp(scores[j] - *stat)
					if !backward {
						for d := range e {
							o[row(i)+d] += w * v[kvRow(j)+d]
						}
						continue
					}
					g := do[row(i):][:e]
					ds := m.Scale * w * (dot(g, v[kvRow(j):]) - dot(g, o[row(i):]))
					for d := range e {
						dq[row(i)+d] += ds * k[kvRow(j)+d]
						dk[kvRow(j)+d] += ds * q[row(i)+d]
						dv[kvRow(j)+d] += w * g[d]
					}
				}
			}
		}
	}
	if backward {
		f.write(results[0], dq)
		f.write(results[1], dk)
		f.write(results[2], dv)
		return
	}
	f.write(results[0], o)
	f.write(results[1], stats)
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func (f *fake) read(x *tensor.Tensor) []float64 {
	out := make([]float64, x.Elems())
	if x.DType() == tensor.I32 {
		for i, v := range tensor.Host[int32](x)[:x.Elems()] {
			out[i] = float64(v)
		}
		return out
	}
	y := f.New(tensor.Workspace, tensor.F64, x.Elems())
	defer y.Release()
	f.Copy(y, x.Reshape(x.Elems()))
	copy(out, tensor.Host[float64](y))
	return out
}

func (f *fake) write(x *tensor.Tensor, v []float64) {
	y := f.New(tensor.Workspace, tensor.F64, len(v))
	defer y.Release()
	copy(tensor.Host[float64](y), v)
	f.Copy(x.Reshape(len(v)), y)
}

// TestAttention compares attention and its gradients by calls with those of package naive, for
// every arrangement: padding rows, empty and short sequences, grouped heads, windows.
func TestAttention(t *testing.T) {
	const e = 8
	for _, starts := range [][]int32{{0, 12}, {0, 9}, {0, 4, 8, 12}, {0, 3, 6, 9, 12}, {0, 3, 3, 7, 10}, {0, 1, 2, 8, 8, 9}} {
		for _, p := range []tensor.AttentionParams{
			{Heads: 2, KVHeads: 2, Causal: true},
			{Heads: 4, KVHeads: 2, Causal: true, Window: 3},
			{Heads: 2, KVHeads: 1},
		} {
			for _, major := range []int{8, 9} {
				p.E, p.Scale, p.MaxSeqLen = e, 0.5, 6
				if len(starts) == 2 {
					p.MaxSeqLen = 12
				}
				if len(starts) == 4 {
					p.SeqLen = 4
				}
				t.Run(fmt.Sprintf("%v %d/%d %v %d on %d", starts, p.Heads, p.KVHeads, p.Causal, p.Window, major), func(t *testing.T) {
					compare(t, starts, p, Device{Major: major})
				})
			}
		}
	}
}

func compare(t *testing.T, starts []int32, p tensor.AttentionParams, d Device) {
	const n = 12
	b := naive.New()
	f := &fake{Backend: b, t: t}
	rng := rand.New(rand.NewPCG(3, 4))
	random := func(width int) *tensor.Tensor {
		x := b.New(tensor.Workspace, tensor.F32, n, width)
		for i := range tensor.Host[float32](x) {
			tensor.Host[float32](x)[i] = float32(rng.NormFloat64())
		}
		y := b.New(tensor.Workspace, tensor.F16, n, width)
		b.Copy(y, x)
		return y
	}
	p.Starts = b.New(tensor.Workspace, tensor.I32, len(starts))
	copy(tensor.Host[int32](p.Starts), starts)
	w, kw := p.Heads*p.E, p.KVHeads*p.E
	qkv, do := random(w+2*kw), random(w)
	q, k, v := qkv.Cols(0, w), qkv.Cols(w, w+kw), qkv.Cols(w+kw, w+2*kw)
	x := NewOps(f, d, false)
	all := [2][]*tensor.Tensor{}
	for i := range all {
		out := func(dt tensor.DType, shape ...int) *tensor.Tensor {
			y := b.New(tensor.Workspace, dt, shape...)
			b.Fill(y, math.NaN())
			return y
		}
		o, lse, dqkv := out(tensor.F16, n, w), out(tensor.F32, p.Heads, n), out(tensor.F16, n, w+2*kw)
		dq, dk, dv := dqkv.Cols(0, w), dqkv.Cols(w, w+kw), dqkv.Cols(w+kw, w+2*kw)
		if i == 0 {
			b.Attention(o, lse, q, k, v, nil, p)
			b.AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, nil, p)
		} else {
			before := b.Meter().Read().LiveTotal
			if ok, why := x.Attention(o, lse, q, k, v, nil, p); !ok {
				t.Fatal(why)
			}
			if ok, why := x.AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, nil, p); !ok {
				t.Fatal(why)
			}
			if live := b.Meter().Read().LiveTotal; live != before {
				t.Errorf("%d bytes are held", live-before)
			}
		}
		all[i] = []*tensor.Tensor{o, lse, dqkv}
	}
	for i, name := range []string{"o", "log-sum-exp", "gradients"} {
		want, got := f.read(all[0][i]), f.read(all[1][i])
		for j := range want {
			if math.Abs(got[j]-want[j]) > 3e-3*(1+math.Abs(want[j])) || got[j] != got[j] {
				t.Fatalf("%s: element %d is %v, want %v", name, j, got[j], want[j])
			}
		}
	}
	if f.calls != 2 {
		t.Errorf("%d calls, want 2", f.calls)
	}
}

// TestRefused checks that an attention that cuDNN does not have leaves everything to the caller.
func TestRefused(t *testing.T) {
	b := naive.New()
	f := &fake{Backend: b, t: t}
	starts := b.New(tensor.Workspace, tensor.I32, 2)
	x := func(dt tensor.DType) *tensor.Tensor { return b.New(tensor.Workspace, dt, 4, 8) }
	before := b.Meter().Read().LiveTotal
	p := tensor.AttentionParams{Starts: starts, MaxSeqLen: 4, Heads: 1, KVHeads: 1, E: 8, Scale: 1}
	for why, c := range map[string][2]tensor.DType{
		"cuDNN attention takes bfloat16 and float16, not float32": {tensor.F32, tensor.F32},
		"queries, keys and values have different types":           {tensor.BF16, tensor.F32},
	} {
		q, k := x(c[0]), x(c[1])
		if ok, got := NewOps(f, hopper, false).Attention(q, q, q, k, k, nil, p); ok || got != why {
			t.Errorf("%v, %q, want %q", ok, got, why)
		}
		q.Release()
		k.Release()
	}
	if live := b.Meter().Read().LiveTotal; f.calls != 0 || live != before {
		t.Errorf("%d calls, %d bytes", f.calls, live-before)
	}
}
