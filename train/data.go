package train

import (
	"context"
	"encoding/json"
	"fmt"

	"trireme/data"
	"trireme/model"
)

// openData opens what the run trains on and what is held out, for a model's vocabulary.
func (r *Run) openData(_ context.Context, config *model.Config) (err error) {
	var head struct {
		Vocab int `json:"vocab_size"`
	}
	if err := json.Unmarshal(config.JSON, &head); err != nil {
		return fmt.Errorf("train: %s: %w", config.Path, err)
	}
	c := r.Config.Data
	if r.train, err = c.Open(c.Path, head.Vocab); err != nil {
		return err
	}
	if c.EvalPath != "" {
		if r.eval, err = c.Open(c.EvalPath, head.Vocab); err != nil {
			return err
		}
	}
	cfg := r.loaderConfig()
	cfg.Vocab = head.Vocab
	r.loader, err = data.New(r.train, cfg)
	return err
}

func (r *Run) loaderConfig() data.LoaderConfig {
	c := r.Config
	return data.LoaderConfig{
		MicroBatchSize: c.Training.MicroBatchSize, Accumulation: r.accum, Rank: r.deps.World.Rank(), Ranks: r.deps.World.Size(),
		Seed: c.Training.Seed, Shuffle: c.Data.Shuffle, DropLast: c.Data.DropLast, SequenceLength: c.Data.SequenceLength,
	}
}
