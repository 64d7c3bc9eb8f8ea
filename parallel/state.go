package parallel

import (
	"context"
	"slices"

	"trireme/checkpoint"
	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
)

// Init sets the initial values of all parameters. Call Refresh afterwards.
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

// Refresh casts the masters, set by Init or a load, to compute parameters and sends these to the other ranks
// that keep them. Every rank calls it. In F32 it does nothing.
func (e *Engine) Refresh(ctx context.Context) error {
	e.ctx, e.refreshed = ctx, true
	if !e.masters {
		return nil
	}
	return e.Guard(func() {
		for _, f := range e.flats {
			if f.offloaded() {
				e.castOffloaded(f)
			}
			e.publish(f)
		}
	})
}

// State lists this rank's shards of the training state, for saving and loading: parameters in F32, and
// each optimizer slot as a kind of its own. A slot with one element per block of a parameter has shape
// [blocks].
func (e *Engine) State() []checkpoint.Item {
	var out []checkpoint.Item
	add := func(kind string, f *flat, h stateTensor) {
		for _, s := range f.shards(h, h.span) {
			out = append(out, checkpoint.Item{Kind: kind, Shard: s})
		}
	}
	for _, f := range e.flats {
		add(checkpoint.Param, f, f.tensors[atMaster])
		if !f.frozen {
			for i, s := range elements(f.optimizer) {
				add(s.Name, f, f.tensors[atState+i])
			}
		}
	}
	for _, j := range e.tensorwise {
		out = append(out, j.items()...)
	}
	return out
}

// SaveShare returns the bytes that this rank writes of State if the ranks that hold the same elements divide
// them evenly. Ranks differ by less than the size of a part.
func (e *Engine) SaveShare() (n int64) {
	add := func(f *flat, h stateTensor) {
		own, holders := int64(h.Bytes()), e.mesh.Data.Size()*(h.hi-h.lo)/f.padded
		n += own / int64(max(1, holders))
	}
	for _, f := range e.flats {
		add(f, f.tensors[atMaster])
		if !f.frozen {
			for i := range elements(f.optimizer) {
				add(f, f.tensors[atState+i])
			}
		}
	}
	for _, j := range e.tensorwise {
		for _, it := range j.items() {
			n += int64(it.Box.Elems() * it.DType.Size())
		}
	}
	return n
}

// OwnedParams lists the shards of parameters, in F32, that this rank owns, for export. Over Mesh.Data
// they cover each Param.Local exactly once, and over all ranks the whole parameters.
func (e *Engine) OwnedParams() []tensor.Shard { return e.OwnedSlot("") }

// OwnedSlot is OwnedParams with the named element-wise optimizer slot in place of each parameter that
// has it.
func (e *Engine) OwnedSlot(name string) []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		h := f.tensors[atMaster]
		if !f.frozen {
			if i := slices.IndexFunc(elements(f.optimizer), func(s optim.Slot) bool { return s.Name == name }); i >= 0 {
				h = f.tensors[atState+i]
			}
		}
		out = append(out, f.shards(h, f.own)...)
	}
	return out
}

// OwnedGrads is OwnedParams with the gradient of the last step in place of each trained parameter: the sum over
// label tokens, times the loss scale. It is valid from Finish until the next Begin.
func (e *Engine) OwnedGrads() []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		if !f.frozen {
			out = append(out, f.shards(stateTensor{f.grad, f.layout.grad, 1, tensor.Grads}, f.own)...)
		}
	}
	return out
}

// HeldParams lists all shards of parameters that this rank keeps, in F32 unless Options.NoMasters, replicated ones too,
// for loading a model's files. Quantized parameters are not among them. Call Refresh afterwards.
func (e *Engine) HeldParams() []tensor.Shard {
	var out []tensor.Shard
	for _, f := range e.flats {
		out = append(out, f.shards(f.tensors[atMaster], f.layout.master)...)
	}
	return out
}

// shards returns the shards of parameters in range want of the flat, with their data in h.
func (f *flat) shards(h stateTensor, want span) []tensor.Shard {
	var out []tensor.Shard
	blocks := func(n int) int { return (n + h.block - 1) / h.block }
	f.each(want, func(p *nn.Param, first, at, n int) {
		shape, local := p.Shape, p.Local
		if h.block > 1 { // Mesh.setLocal ensures that local is the whole parameter
			shape = tensor.Shape{blocks(shape.Elems())}
			local = tensor.FullBox(shape)
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

// SlotSize is the size of an optimizer slot on this rank, in memory or offloaded.
type SlotSize struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Slots lists the sizes of optimizer slots by name, in order of appearance.
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
				add(s.Name, f.tensors[atState+i].Tensor)
			}
		}
	}
	for _, j := range e.tensorwise {
		for _, c := range j.classes {
			for i, s := range whole(j.Tensorwise) {
				add(s.Name, c.state[i])
			}
		}
	}
	return all
}

// Updated returns the number of elements that this rank updates, with padding.
func (e *Engine) Updated() (n int64) {
	for _, f := range e.flats {
		if !f.frozen {
			n += int64(f.optim.len())
		}
	}
	return n
}
