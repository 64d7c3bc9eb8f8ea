// Package data turns files into the micro-batches of a training step.
//
// Readers stream records from files. An encoder tokenizes each record, depending on its keys and on
// ModelInfo: plain text, prompts with answers (labels on the answers only), conversations (rendered
// by a chat template, internal/jinja), or text with a class label. The result is written once to a
// token file in the cache directory, and a Dataset serves rows from it. A Sampler orders the rows:
// it is PyTorch's DistributedSampler as one global list, so a run trains on the same rows in the
// same order for any number of ranks. A Loader joins the two. Next returns one rank's micro-batches
// of a step, prefetched in the background, and State is all that a checkpoint needs to continue.
//
//	set, err := data.Open(ctx, cfg, model, tok, nil) // rows of cfg.Path
//	l, err := data.NewLoader(set.Train, data.LoaderConfig{MicroBatchSize: 4, Rank: r, Ranks: n, Shuffle: true})
//	defer l.Close()
//	for {
//		b, err := l.Next(ctx)                    // b.Micro[a] is accumulation index a
//		state := l.State()                       // after b
//	}
//
// The package makes the targets, not the model: the target of position t is the label at t+1. The
// target is Ignored at the last position, for labels of -100 and, with document_mask, for the first
// token of a document. Rows are concatenated in a micro-batch without padding.
//
// The package does no communication: ranks agree because they compute the same.
package data
