// Package data turns files into the micro-batches of a training step.
//
// A Dataset is a list of rows, each a sequence of tokens with labels. Files of any kind give
// records, which are read one after the other, never a file as a whole; an encoder makes
// tokens of them, by what their keys say they are and what ModelInfo asks for: text to
// continue, prompts with answers of which only those are learned, conversations that a chat
// template (internal/jinja) turns into text, texts with a label. That is done once, into a
// token file in a cache directory, from which rows are made.
// A Sampler says in which order the rows are used: it is PyTorch's DistributedSampler seen
// as one global list, so that what a run learns from does not depend on how many ranks share
// the work. A Loader joins the two: Next gives one step's micro-batches of one rank, read
// ahead in the background, and its State is all that a checkpoint needs to go on from there.
//
//	set, err := data.Open(ctx, cfg, model, tok, nil) // rows of cfg.Path
//	l, err := data.NewLoader(set, data.LoaderConfig{MicroBatchSize: 4, Rank: r, Ranks: n, Shuffle: true})
//	defer l.Close()
//	for {
//		b, err := l.Next(ctx)                    // b.Micro[a] is accumulation index a
//		state := l.State()                       // after b
//	}
//
// Targets are made here, not in the model: a row of T tokens gives T-1 predictions, and
// position t is to predict the label at t+1. Ignored holds for the last position, for
// labels of -100 and, where documents are kept apart, for the first token of a document. Rows lie
// end to end in a micro-batch, and nothing is padded.
//
// The package does no communication: ranks agree because they compute the same.
package data
