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
	b     tensor.Backend
	m     model.Model
	cache *nn.KVCache
	first int // index in the text of the cache's first row
	rows  int // in the cache
	seed  uint64
	out   []float32
}

// newDecoder returns a decoder of texts of up to length tokens, no more than the model's positions.
// Longer ones lose their beginning.
func newDecoder(b tensor.Backend, m model.Model, length, positions int, seed uint64) *decoder {
	info, layers := m.Info(), 0
	for _, a := range info.Attention {
		if a.Causal {
			layers += a.Layers
		}
	}
	cache := nn.NewKVCache(b, tensor.F32, layers, tensor.Bucket(b, length, positions), 2*info.KVHeads*info.HeadDim)
	return &decoder{b: b, m: m, cache: cache, seed: seed, out: make([]float32, info.Vocab)}
}

func (r *decoder) close() { r.cache.Release() }

// logits returns the logits of the token after ids, which extend those of the last call. The next call
// overwrites them.
func (r *decoder) logits(ids []int32) ([]float32, error) {
	if len(ids)-r.first > r.cache.Cap {
		seen := r.rows
		r.first = len(ids) - r.cache.Cap
		if seen > 0 { // leave space, to not repeat this at each token
			r.first = len(ids) - max(1, r.cache.Cap/2)
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
	n, rows := len(ids), len(ids)
	if r.rows == 0 {
		rows = tensor.Bucket(r.b, n, r.cache.Cap)
	}
	padded, at, keys := make([]int32, rows), make([]int32, rows), make([]int64, rows)
	copy(padded, ids)
	for i := range n {
		at[i], keys[i] = int32(r.rows+i), int64(r.first+r.rows+i)
	}
	var logits func() []byte
	err := tensor.Compile(r.b, true, func() error {
		upload := func(dt tensor.DType, length int, b []byte) *tensor.Tensor {
			t := r.b.New(tensor.Workspace, dt, length)
			r.b.Upload(t, b)
			return t
		}
		batch := model.Batch{
			IDs: upload(tensor.I32, rows, tensor.AsBytes(padded)), Positions: upload(tensor.I32, rows, tensor.AsBytes(at)),
			Starts: upload(tensor.I32, 2, tensor.AsBytes([]int32{0, int32(n)})), MaxSeqLen: rows,
			TokenKeys: upload(tensor.I64, rows, tensor.AsBytes(keys)), Cache: r.cache, Seed: r.seed,
		}
		r.cache.At = batch.Positions.Flat(0, 1)
		out := r.m.Logits(autograd.NewTape(r.b, tensor.F32, false), batch, n-1)
		logits = tensor.DownloadAsync(r.b, out)
		for _, t := range []*tensor.Tensor{batch.IDs, batch.Positions, batch.Starts, batch.TokenKeys, out} {
			t.Release()
		}
		return nil
	})
	if err != nil {
		return err
	}
	copy(tensor.AsBytes(r.out), logits())
	r.rows += n
	return nil
}
