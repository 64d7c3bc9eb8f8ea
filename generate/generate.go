package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/model"
	"trireme/tensor"
)

// Options configure sampling.
type Options struct {
	MaxNewTokens int
	Temperature  float64 // of the softmax; 0 is greedy
	TopK         int     // keep the k most likely tokens; 0 keeps all
	TopP         float64 // keep the most likely tokens with this total probability; 0 and 1 keep all
	Seed         uint64
	Stop         []int32      // ids that end the text and are not returned
	DType        tensor.DType // of activations; train.LoadedModel has its own
	Cache        CacheType    // of keys and values; "" is DType
}

// CacheType is the type in which keys and values of earlier tokens are kept.
type CacheType string

// Int8 has a scale for each row and head. Attention of one row computes in float32 with every type.
const (
	Float32  CacheType = "float32"
	BFloat16 CacheType = "bfloat16"
	Int8     CacheType = "int8"
)

// Choices lists the types.
func (c CacheType) Choices() []string {
	return []string{string(Float32), string(BFloat16), string(Int8)}
}

// Or is c, or the type of activations dt if c is "".
func (c CacheType) Or(dt tensor.DType) CacheType {
	if c == "" {
		return CacheType(dt.String())
	}
	return c
}

// Of returns the type of a cache of activations of type dt.
func (c CacheType) Of(dt tensor.DType) tensor.DType {
	switch c {
	case Float32:
		return tensor.F32
	case BFloat16:
		return tensor.BF16
	case Int8:
		return tensor.U8
	}
	return dt
}

// Validate checks ranges.
func (o Options) Validate() error {
	switch {
	case o.MaxNewTokens < 1:
		return fmt.Errorf("generate: %d new tokens: it must be at least 1", o.MaxNewTokens)
	case !(o.Temperature >= 0):
		return fmt.Errorf("generate: temperature is %v: it must be 0 or more", o.Temperature)
	case o.TopK < 0:
		return fmt.Errorf("generate: top_k is %d: it must be 0 or more", o.TopK)
	case !(o.TopP >= 0 && o.TopP <= 1):
		return fmt.Errorf("generate: top_p is %v: it must be in [0, 1]", o.TopP)
	case o.Cache != "" && !slices.Contains(o.Cache.Choices(), string(o.Cache)):
		return fmt.Errorf("generate: cache is %q: it must be one of %s", o.Cache, strings.Join(o.Cache.Choices(), ", "))
	}
	return nil
}

// ErrNotCausal is returned for a model that does not predict the next token.
var ErrNotCausal = fault.Try(errors.New("generate: this model does not predict the next token and cannot generate text"), "trireme eval")

// ErrNaN is returned if the logits are NaN.
var ErrNaN = fault.Try(errors.New("generate: the model's logits are NaN: its weights are NaN or infinite, or its files are corrupt"), "another model or checkpoint")

// Tokens yields new ids after prompt. Keys and values are cached. If the text exceeds positions, it
// continues from the newer half.
func Tokens(ctx context.Context, b tensor.Backend, m model.Model, prompt []int32, positions int, o Options) iter.Seq2[int32, error] {
	return func(yield func(int32, error) bool) {
		if err := check(m.Info(), prompt, o); err != nil {
			yield(0, err)
			return
		}
		r := newDecoder(b, m, o.DType, o.Cache.Of(o.DType), min(positions, len(prompt)+o.MaxNewTokens), positions, o.Seed)
		defer r.close()
		From(ctx, m.Info(), prompt, o, r.logits)(yield)
	}
}

// From is Tokens with the logits of a function, which returns those of the token after ids and may overwrite
// them in the next call.
func From(ctx context.Context, info model.Info, prompt []int32, o Options, next func(ids []int32) ([]float32, error)) iter.Seq2[int32, error] {
	return func(yield func(int32, error) bool) {
		if err := check(info, prompt, o); err != nil {
			yield(0, err)
			return
		}
		ids := slices.Clone(prompt)
		for n := range o.MaxNewTokens {
			if ctx.Err() != nil {
				yield(0, context.Cause(ctx))
				return
			}
			logits, err := next(ids)
			if err != nil {
				yield(0, err)
				return
			}
			if slices.ContainsFunc(logits, func(x float32) bool { return x != x }) {
				yield(0, ErrNaN)
				return
			}
			id := choose(logits, o, uniform(o.Seed, uint64(n)))
			if slices.Contains(o.Stop, id) || !yield(id, nil) {
				return
			}
			ids = append(ids, id)
		}
	}
}

func check(info model.Info, prompt []int32, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if info.Labels > 0 || info.Task != model.Causal {
		return ErrNotCausal
	}
	if len(prompt) == 0 {
		return fault.Try(errors.New("generate: the prompt is empty"), "a prompt of one token or more")
	}
	for _, id := range prompt {
		if id < 0 || int(id) >= info.Vocab {
			return fault.Try(fmt.Errorf("generate: prompt token id %d is outside the model's vocabulary of %d: the tokenizer is another model's", id, info.Vocab), "the model's tokenizer")
		}
	}
	return nil
}

// uniform returns a number in [0, 1) from seed and n (splitmix64, Steele et al. 2014).
func uniform(seed, n uint64) float64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
