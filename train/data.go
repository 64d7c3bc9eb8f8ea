package train

import (
	"context"
	"errors"

	"trireme/data"
	"trireme/device"
	"trireme/flight"
	"trireme/model"
	"trireme/tokenizer"
	"trireme/trace"
)

// ModelInfo returns the Info of a model made from config, without allocating it.
func ModelInfo(config *model.Config) (info model.Info, err error) {
	b, err := device.Open("meta", device.Options{})
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	m, err := config.Make(b, 1)
	if err != nil {
		return info, input(err)
	}
	return m.Info(), nil
}

// openData opens the training and evaluation sets for a model.
func (c Config) openData(ctx context.Context, config *model.Config, info model.Info, accum, rank, ranks int, rec *flight.Recorder, spans *trace.Recorder, report func(data.Progress)) (*data.Sets, *data.Loader, error) {
	tok, err := c.openTokenizer()
	if err != nil {
		return nil, nil, input(err)
	}
	tokenizing := spans.Begin(trace.Span{Kind: trace.Tokenize})
	sets, err := c.openSets(ctx, config, info, tok, rec, report)
	spans.End(tokenizing)
	if err != nil {
		return nil, nil, input(err)
	}
	c.Data.SequenceLength = sets.SequenceLength(c.Data)
	cfg := c.loaderConfig(info, accum, rank, ranks)
	cfg.Masking, cfg.Recorder, cfg.Trace = sets.Masking, rec, spans
	loader, err := data.NewLoader(sets.Train, cfg)
	if err != nil {
		return nil, nil, errors.Join(input(err), sets.Close())
	}
	return sets, loader, nil
}

// openSets opens the data, which may tokenize it.
func (c Config) openSets(ctx context.Context, config *model.Config, info model.Info, tok *tokenizer.Tokenizer, rec *flight.Recorder, report func(data.Progress)) (*data.Sets, error) {
	defer rec.Leave(rec.Enter(flight.Tokenizing, c.Data.Path))
	return data.Open(ctx, c.Data, modelInfo(config, info), tok, func(p data.Progress) {
		rec.Detail(p.Path)
		rec.Tick()
		if report != nil {
			report(p)
		}
	})
}

var tasks = map[model.Task]data.Task{model.Causal: data.CausalLM, model.Masked: data.MaskedLM, model.Classify: data.SequenceClassification}

// modelInfo describes a model to package data.
func modelInfo(config *model.Config, info model.Info) data.ModelInfo {
	return data.ModelInfo{
		Task: tasks[info.Task], Vocab: info.Vocab, Positions: info.MaxPositions, Labels: info.Labels, LabelIDs: labelIDs(config),
	}
}

// openTokenizer loads data.tokenizer or the model's tokenizer; nil if there is none.
func (c Config) openTokenizer() (*tokenizer.Tokenizer, error) {
	if c.Data.Tokenizer != "" {
		return tokenizer.Load(c.Data.Tokenizer)
	}
	if c.Model.Path == "" || !tokenizer.Exists(c.Model.Path) {
		return nil, nil
	}
	return tokenizer.Load(c.Model.Path)
}

func (c Config) loaderConfig(info model.Info, accum, rank, ranks int) data.LoaderConfig {
	return data.LoaderConfig{
		MicroBatchSize: c.Training.MicroBatchSize, Accumulation: accum, Rank: rank, Ranks: ranks,
		MicroBatchTokens: c.Training.MicroBatchTokens, GlobalBatch: c.Training.GlobalBatchSize, RowCost: info.RowFLOPs,
		Seed: c.Training.Seed, Shuffle: c.Data.Shuffle, DropLast: c.Data.DropLast, SequenceLength: c.Data.SequenceLength,
		Vocab: info.Vocab, Task: tasks[info.Task],
	}
}
