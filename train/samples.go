package train

import (
	"context"
	"errors"
	"fmt"

	"trireme/fault"
	"trireme/generate"
	"trireme/model"
	"trireme/tensor"
	"trireme/tokenizer"
)

// prompts are training.eval_prompts with their tokenizer.
type prompts struct {
	tok   *tokenizer.Tokenizer
	texts []string
	ids   [][]int32
}

// openPrompts tokenizes training.eval_prompts; nil if there are none.
func (c Config) openPrompts(info model.Info, evaluates bool) (*prompts, error) {
	if len(c.Training.EvalPrompts) == 0 {
		return nil, nil
	}
	if !evaluates {
		return nil, fault.Try(errors.New("train: eval_prompts need an evaluation set"), "%s, or data.eval_path", fault.Set("data.eval_fraction", "0.05"))
	}
	if info.Labels > 0 || info.Task != model.Causal {
		return nil, fault.Try(errors.New("train: eval_prompts: this model does not predict the next token"), "%s", fault.Set("training.eval_prompts", "[]"))
	}
	tok, err := c.openTokenizer()
	if err != nil {
		return nil, err
	}
	if tok == nil {
		return nil, fault.Try(errors.New("train: eval_prompts need a tokenizer"), "%s", fault.Set("data.tokenizer", "DIR"))
	}
	p := &prompts{tok: tok, texts: c.Training.EvalPrompts}
	for i, text := range p.texts {
		ids := tok.Encode(text, tokenizer.Options{AddSpecialTokens: true})
		if err := tok.Err(); err != nil {
			return nil, fmt.Errorf("train: eval_prompts, text %d: %w", i+1, err)
		}
		if n := len(ids); n == 0 || n >= info.MaxPositions {
			return nil, fault.Try(fmt.Errorf("train: eval_prompts: text %d has %d tokens, but the model has %d positions", i+1, n, info.MaxPositions), "a text of 1 to %d tokens", info.MaxPositions-1)
		}
		p.ids = append(p.ids, ids)
	}
	return p, nil
}

// samples continues each of training.eval_prompts. All ranks run the same passes, which all-gather sharded
// parameters as an evaluation does, and take the same tokens.
func (r *Run) samples(ctx context.Context) (texts []string, err error) {
	if r.prompts == nil {
		return nil, nil
	}
	o := generate.Options{MaxNewTokens: r.Config.Training.EvalMaxNewTokens}
	if eos := r.prompts.tok.EOS(); eos >= 0 {
		o.Stop = []int32{eos}
	}
	next := func(ids []int32) ([]float32, error) {
		return r.stepper.logits(ctx, ids[max(0, len(ids)-r.info.MaxPositions):], r.info.MaxPositions)
	}
	for i, ids := range r.prompts.ids {
		text, stream := r.prompts.texts[i], r.prompts.tok.DecodeStream(false)
		for _, id := range ids {
			stream.Next(id) // decides the space before the first word
		}
		for id, err := range generate.From(ctx, r.info, ids, o, next) {
			if errors.Is(err, generate.ErrNaN) {
				break // the loss is NaN too, with its own policy
			}
			if err != nil {
				return nil, err
			}
			text += stream.Next(id)
		}
		texts = append(texts, text+stream.Close())
	}
	return texts, nil
}

// logits returns the float32 logits of the token after ids, in a pass of their own. There is no cache of keys
// and values: it would not be of the training types.
func (s *Stepper) logits(ctx context.Context, ids []int32, positions int) ([]float32, error) {
	var wait func() []byte
	if err := s.compile(true, func() {
		s.engine.Begin(ctx, 1, false)
		p := generate.Pass{Backend: s.b, Model: s.model, Param: s.engine.Precision().Param, Seed: s.seed}
		wait = p.Logits(ids, 0, 0, tensor.Bucket(s.b, len(ids), positions))
		s.engine.EndMicroBatch()
	}); err != nil {
		return nil, err
	}
	out := make([]float32, s.model.Info().Vocab)
	copy(tensor.AsBytes(out), wait())
	return out, nil
}
