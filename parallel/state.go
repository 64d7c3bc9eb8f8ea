package parallel

import (
	"fmt"

	"trireme/nn"
	"trireme/tensor"
)

// The kinds of state, which come before a tensor's name in a checkpoint.
const (
	KindParam    = "param"
	KindExpAvg   = "exp_avg"
	KindExpAvgSq = "exp_avg_sq"
)

// Init gives all parameters their first values.
func (e *Engine) Init(seed uint64) {
	for _, f := range e.flats {
		e.b.Fill(f.param, 0) // the padding
		f.each(f.layout.param, func(p *nn.Param, first, at, n int) {
			lo := at - f.layout.param.lo
			p.Fill(e.b, f.param.Flat(lo, lo+n), seed, first)
		})
		if !f.frozen {
			e.b.Fill(f.m, 0)
			e.b.Fill(f.v, 0)
		}
	}
}

// Owned lists this rank's part of the state such that all ranks' parts are the whole, once:
// what this rank saves.
func (e *Engine) Owned() []tensor.Shard {
	return e.shards(func(f *flat, _ span) span { return f.own })
}

// Held lists all the state that this rank keeps: what it loads.
func (e *Engine) Held() []tensor.Shard {
	return e.shards(func(_ *flat, held span) span { return held })
}

// OwnedParams is Owned for parameters alone, under their plain names: what is exported.
func (e *Engine) OwnedParams() []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		out = f.appendShards(out, "", f.param, f.layout.param, f.own)
	}
	return out
}

// HeldParams is Held for parameters alone, under their plain names: what is read from a
// model's files.
func (e *Engine) HeldParams() []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		out = f.appendShards(out, "", f.param, f.layout.param, f.layout.param)
	}
	return out
}

func (e *Engine) shards(pick func(f *flat, held span) span) []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		out = f.appendShards(out, KindParam+"/", f.param, f.layout.param, pick(f, f.layout.param))
		if f.frozen {
			continue
		}
		out = f.appendShards(out, KindExpAvg+"/", f.m, f.optim, pick(f, f.optim))
		out = f.appendShards(out, KindExpAvgSq+"/", f.v, f.optim, pick(f, f.optim))
	}
	return out
}

func (f *flat) appendShards(out []tensor.Shard, prefix string, t *tensor.Tensor, held, want span) []tensor.Shard {
	f.each(want, func(p *nn.Param, first, at, n int) {
		lo := at - held.lo
		out = append(out, tensor.Shard{
			Name: prefix + p.Name, DType: t.DType(), Shape: p.Shape, First: first, Count: n, Data: t.Flat(lo, lo+n),
		})
	})
	return out
}

// Describe is one line about the division, for logs.
func (e *Engine) Describe() string {
	return fmt.Sprintf("%s, mesh %d x %d, %d units", e.strategy.Name, e.at.replicas, e.at.shards, len(e.units))
}
