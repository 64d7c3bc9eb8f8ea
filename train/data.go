package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"trireme/data"
	"trireme/model"
	"trireme/tokenizer"
)

// openData opens what a rank trains on and what is held out, for a model's vocabulary.
func (c Config) openData(ctx context.Context, config *model.Config, accum, rank, ranks int) (*data.Sets, *data.Loader, error) {
	var head struct {
		Vocab int `json:"vocab_size"`
	}
	if err := model.Decode(config.JSON, &head); err != nil {
		return nil, nil, input(fmt.Errorf("train: %s: %w", config.Path, err))
	}
	tok, err := c.openTokenizer()
	if err != nil {
		return nil, nil, input(err)
	}
	sets, err := data.Open(ctx, c.Data, tok, head.Vocab)
	if err != nil {
		return nil, nil, input(err)
	}
	cfg := c.loaderConfig(accum, rank, ranks)
	cfg.Vocab = head.Vocab
	loader, err := data.New(sets.Train, cfg)
	if err != nil {
		return nil, nil, errors.Join(input(err), sets.Close())
	}
	return sets, loader, nil
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

func (c Config) loaderConfig(accum, rank, ranks int) data.LoaderConfig {
	return data.LoaderConfig{
		MicroBatchSize: c.Training.MicroBatchSize, Accumulation: accum, Rank: rank, Ranks: ranks,
		Seed: c.Training.Seed, Shuffle: c.Data.Shuffle, DropLast: c.Data.DropLast, SequenceLength: c.Data.SequenceLength,
	}
}
