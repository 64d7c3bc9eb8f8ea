package generate

import (
	"trireme/autograd"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
)

// decoder computes logits of a growing text with a KV cache.
type decoder struct {
	b     tensor.Backend
	m     model.Model
	cache *nn.KVCache
	first int // index in the text of the cache's first row
	seed  uint64
	out   []float32
}

func newDecoder(b tensor.Backend, m model.Model, positions int, seed uint64) *decoder {
	return &decoder{b: b, m: m, cache: nn.NewKVCache(b, positions, tensor.F32), seed: seed, out: make([]float32, m.Info().Vocab)}
}

func (r *decoder) close() { r.cache.Release() }

// logits returns the logits of the token after ids, which extend those of the last call. The next call
// overwrites them.
func (r *decoder) logits(ids []int32) []float32 {
	seen := r.first + r.cache.Rows
	if len(ids)-r.first > r.cache.Cap {
		r.first = len(ids) - r.cache.Cap
		if seen > 0 { // leave space, to not repeat this at each token
			r.first = len(ids) - max(1, r.cache.Cap/2)
		}
		seen, r.cache.Rows = r.first, 0
	}
	r.forward(ids[seen:])
	return r.out
}

// forward computes rows after those in the cache.
func (r *decoder) forward(ids []int32) {
	n := len(ids)
	batch := model.Batch{
		IDs: r.b.New(tensor.Workspace, tensor.I32, n), Positions: r.b.New(tensor.Workspace, tensor.I32, n),
		Starts: r.b.New(tensor.Workspace, tensor.I32, 2), MaxSeqLen: n, TokenKeys: r.b.New(tensor.Workspace, tensor.I64, n),
		Cache: r.cache, Seed: r.seed,
	}
	at, numbers := make([]int32, n), make([]int64, n)
	for i := range at {
		at[i], numbers[i] = int32(r.cache.Rows+i), int64(r.first+r.cache.Rows+i)
	}
	r.b.Upload(batch.IDs, tensor.AsBytes(ids))
	r.b.Upload(batch.Positions, tensor.AsBytes(at))
	r.b.Upload(batch.Starts, tensor.AsBytes([]int32{0, int32(n)}))
	r.b.Upload(batch.TokenKeys, tensor.AsBytes(numbers))
	out := r.m.Logits(autograd.NewTape(r.b, tensor.F32, false), batch, n-1)
	r.b.Download(tensor.AsBytes(r.out), out)
	for _, t := range []*tensor.Tensor{batch.IDs, batch.Positions, batch.Starts, batch.TokenKeys, out} {
		t.Release()
	}
	r.cache.Rows += n
}
