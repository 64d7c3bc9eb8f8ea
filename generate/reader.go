package generate

import (
	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// decoder computes logits of a growing text with a KV cache. On a compiling backend, a prefill of a
// bucket of lengths is one program, and each further token another.
type decoder struct {
	Pass
	first int // index in the text of the cache's first row
	rows  int // in the cache
	out   []float32
}

// Pass is a forward pass for the next token of one text.
type Pass struct {
	Backend tensor.Backend
	Model   model.Model
	Param   tensor.DType // of activations, and of parameters that are not quantized
	Cache   *nn.KVCache  // of the rows before; nil for none
	Seed    uint64
}

// Logits records the pass of ids, the rows from at on of a text whose row 0 is token first, padded to length
// rows. The result waits for the float32 logits of the token after ids; call it outside tensor.Compile.
func (p Pass) Logits(ids []int32, at, first, length int) func() []byte {
	b, n := p.Backend, len(ids)
	padded, positions, keys := make([]int32, length), make([]int32, length), make([]int64, length)
	copy(padded, ids)
	for i := range n {
		positions[i], keys[i] = int32(at+i), int64(first+at+i)
	}
	upload := func(dt tensor.DType, length int, from []byte) *tensor.Tensor {
		t := b.New(tensor.Workspace, dt, length)
		b.Upload(t, from)
		return t
	}
	batch := model.Batch{
		IDs: upload(tensor.I32, length, tensor.AsBytes(padded)), Positions: upload(tensor.I32, length, tensor.AsBytes(positions)),
		Starts: upload(tensor.I32, 2, tensor.AsBytes([]int32{0, int32(n)})), MaxSeqLen: length,
		TokenKeys: upload(tensor.I64, length, tensor.AsBytes(keys)), Cache: p.Cache, Seed: p.Seed,
	}
	if p.Cache != nil {
		p.Cache.At = batch.Positions.Flat(0, 1)
	}
	tape := autograd.NewTape(b, p.Param, false)
	if length == 1 {
		tape.Highest()
	}
	out := p.Model.Logits(tape, batch, n-1)
	logits := tensor.DownloadAsync(b, out)
	for _, t := range []*tensor.Tensor{batch.IDs, batch.Positions, batch.Starts, batch.TokenKeys, out} {
		t.Release()
	}
	return logits
}

// newDecoder returns a decoder of texts of up to length tokens, no more than the model's positions.
// Longer ones lose their beginning. dt is the type of activations, cached that of the cache.
func newDecoder(b tensor.Backend, m model.Model, dt, cached tensor.DType, length, positions int, seed uint64) *decoder {
	info := m.Info()
	cache := nn.NewKVCache(b, cached, causalLayers(info), tensor.Bucket(b, length, positions), info.KVHeads, info.HeadDim)
	return &decoder{Pass: Pass{b, m, dt, cache, seed}, out: make([]float32, info.Vocab)}
}

func causalLayers(info model.Info) (n int) {
	for _, a := range info.Attention {
		if a.Causal {
			n += a.Layers
		}
	}
	return n
}

// CacheBytes is the size of a cache for a text of length tokens, on a backend without static shapes.
func CacheBytes(info model.Info, cached tensor.DType, length int) int64 {
	perHead := int64(info.HeadDim * cached.Size())
	if cached == tensor.U8 {
		perHead += int64(tensor.F32.Size())
	}
	return int64(causalLayers(info)*length*2*info.KVHeads) * perHead
}

func (r *decoder) close() { r.Cache.Release() }

// logits returns the logits of the token after ids, which extend those of the last call. The next call
// overwrites them.
func (r *decoder) logits(ids []int32) ([]float32, error) {
	if len(ids)-r.first > r.Cache.Cap {
		seen := r.rows
		r.first = len(ids) - r.Cache.Cap
		if seen > 0 { // leave space, to not repeat this at each token
			r.first = len(ids) - max(1, r.Cache.Cap/2)
		}
		r.rows = 0
	}
	if err := r.forward(ids[r.first+r.rows:]); err != nil {
		return nil, err
	}
	return r.out, nil
}

// forward computes rows after those in the cache.
func (r *decoder) forward(ids []int32) error {
	length := len(ids)
	if r.rows == 0 {
		length = tensor.Bucket(r.Backend, length, r.Cache.Cap)
	}
	var logits func() []byte
	if err := tensor.Compile(r.Backend, true, func() error {
		logits = r.Pass.Logits(ids, r.rows, r.first, length)
		return nil
	}); err != nil {
		return err
	}
	copy(tensor.AsBytes(r.out), logits())
	r.rows += len(ids)
	return nil
}
