package train

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"trireme/data"
	"trireme/model"
	"trireme/tokenizer"
)

// openData opens what the run trains on and what is held out, for a model's vocabulary.
func (r *Run) openData(ctx context.Context, config *model.Config) error {
	var head struct {
		Vocab int `json:"vocab_size"`
	}
	if err := json.Unmarshal(config.JSON, &head); err != nil {
		return fmt.Errorf("train: %s: %w", config.Path, err)
	}
	tok, err := r.Config.openTokenizer()
	if err != nil {
		return err
	}
	if r.sets, err = data.Open(ctx, r.Config.Data, tok, head.Vocab); err != nil {
		return err
	}
	cfg := r.loaderConfig()
	cfg.Vocab = head.Vocab
	r.loader, err = data.New(r.sets.Train, cfg)
	return err
}

// openTokenizer loads the tokenizer that the configuration names, or the model's own; nil
// where there is neither.
func (c Config) openTokenizer() (*tokenizer.Tokenizer, error) {
	if c.Data.Tokenizer != "" {
		return tokenizer.Load(c.Data.Tokenizer)
	}
	if c.Model.Path == "" {
		return nil, nil
	}
	for _, name := range []string{"tokenizer.json", "vocab.json"} {
		if _, err := os.Stat(filepath.Join(c.Model.Path, name)); err == nil {
			return tokenizer.Load(c.Model.Path)
		}
	}
	return nil, nil
}

func (r *Run) loaderConfig() data.LoaderConfig {
	c := r.Config
	return data.LoaderConfig{
		MicroBatchSize: c.Training.MicroBatchSize, Accumulation: r.accum, Rank: r.deps.World.Rank(), Ranks: r.deps.World.Size(),
		Seed: c.Training.Seed, Shuffle: c.Data.Shuffle, DropLast: c.Data.DropLast, SequenceLength: c.Data.SequenceLength,
	}
}
