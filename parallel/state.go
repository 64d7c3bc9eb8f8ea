package parallel

import (
	"context"
	"slices"

	"trireme/checkpoint"
	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

// Init gives all parameters their first values. Refresh follows.
func (e *Engine) Init(seed uint64) error {
	params := map[string]*nn.Param{}
	for _, f := range e.flats {
		for _, p := range f.params {
			params[p.Name] = p
		}
	}
	for _, s := range e.HeldParams() {
		if err := e.Fill(s, func(dst *tensor.Tensor, first int) error {
			params[s.Name].Fill(e.b, dst, seed, first)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Refresh makes the parameters that compute from the masters, which Init or a load has filled,
// and sends them to the ranks that keep them too. Every rank calls it. In F32 the two are the
// same, and nothing is done.
func (e *Engine) Refresh(ctx context.Context) error {
	e.ctx, e.copied = ctx, true
	if e.precision.Param == tensor.F32 {
		return nil
	}
	return e.Guard(func() {
		for _, f := range e.flats {
			if f.streams() {
				e.remake(f)
			}
			e.publish(f)
		}
	})
}

// State lists what this rank keeps of the training state: what it saves and loads. Parameters are
// F32. A slot of an optimizer is a kind; one whose elements stand for blocks of a parameter's has
// one dimension, of as many as there are blocks.
func (e *Engine) State() []checkpoint.Item {
	var out []checkpoint.Item
	add := func(kind string, f *flat, h held) {
		for _, s := range f.shards(h, h.span) {
			out = append(out, checkpoint.Item{Kind: kind, Shard: s})
		}
	}
	for _, f := range e.flats {
		add(checkpoint.Param, f, f.held[atMaster])
		if !f.frozen {
			for i, s := range elements(f.optimizer) {
				add(s.Name, f, f.held[atState+i])
			}
		}
	}
	for _, j := range e.joints {
		out = append(out, j.items()...)
	}
	return out
}

// OwnedParams lists this rank's parts of the parameters, in F32, such that those of Mesh.Data are
// Param.Local, once, and all ranks' the whole: what it exports.
func (e *Engine) OwnedParams() []tensor.Shard { return e.OwnedSlot("") }

// OwnedSlot is OwnedParams with the optimizer's slot of elements of that name in place of the
// parameters that have it.
func (e *Engine) OwnedSlot(name string) []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		h := f.held[atMaster]
		if !f.frozen {
			if i := slices.IndexFunc(elements(f.optimizer), func(s optim.Slot) bool { return s.Name == name }); i >= 0 {
				h = f.held[atState+i]
			}
		}
		out = append(out, f.shards(h, f.own)...)
	}
	return out
}

// HeldParams lists all parts of the parameters that this rank keeps in F32: what it reads from
// a model's files. Refresh follows.
func (e *Engine) HeldParams() []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		out = append(out, f.shards(f.held[atMaster], f.layout.master)...)
	}
	return out
}

// shards are the parts of parameters in want that h holds.
func (f *flat) shards(h held, want span) []tensor.Shard {
	var out []tensor.Shard
	blocks := func(n int) int { return (n + h.block - 1) / h.block }
	f.each(want, func(p *nn.Param, first, at, n int) {
		shape, local := p.Shape, p.Local
		if h.block > 1 { // Mesh.place refuses these where local is not the whole
			shape = tensor.Shape{blocks(shape.Elems())}
			local = tensor.Whole(shape)
		}
		lo := h.elems(at - h.lo)
		first, n = h.elems(first), blocks(n)
		for _, b := range local.Range(first, first+n) {
			out = append(out, tensor.Shard{Name: p.Name, DType: h.DType(), Shape: shape, Box: b, Data: h.Flat(lo, lo+b.Elems())})
			lo += b.Elems()
		}
	})
	return out
}

// SlotSize is what a rank keeps of a slot of optimizers, wherever it rests.
type SlotSize struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Slots lists the state of optimizers by name, in order of appearance.
func (e *Engine) Slots() (all []SlotSize) {
	add := func(name string, t *tensor.Tensor) {
		i := slices.IndexFunc(all, func(s SlotSize) bool { return s.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, SlotSize{Name: name})
		}
		all[i].Bytes += int64(t.Bytes())
	}
	for _, f := range e.flats {
		if !f.frozen {
			for i, s := range elements(f.optimizer) {
				add(s.Name, f.held[atState+i].Tensor)
			}
		}
	}
	for _, j := range e.joints {
		for _, c := range j.classes {
			for i, s := range whole(j.Tensorwise) {
				add(s.Name, c.state[i])
			}
		}
	}
	return all
}

// Updated is the number of elements that this rank updates, padding included.
func (e *Engine) Updated() (n int64) {
	for _, f := range e.flats {
		if !f.frozen {
			n += int64(f.optim.n())
		}
	}
	return n
}
