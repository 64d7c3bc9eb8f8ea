package data

import "iter"

// EvalBatches gives one rank's part of a dataset once, in order: (micro-batch, error) pairs. Groups of
// MicroBatchSize rows, or of as many as MicroBatchTokens hold, go to the ranks in turn. Every rank
// gives as many micro-batches, so that ranks stay together: where a rank has no rows left, one
// that counts for nothing. A micro-batch is valid until the next. Shuffle, DropLast, Accumulation
// and Prefetch are not used, and Seed is of what Masking hides.
func EvalBatches(d Dataset, cfg LoaderConfig) iter.Seq2[*MicroBatch, error] {
	return func(yield func(*MicroBatch, error) bool) {
		if err := cfg.fill(d); err != nil {
			yield(nil, err)
			return
		}
		m := cfg.newMicroBatch(d)
		var row Row
		for first := 0; first < d.Len(); {
			m.reset()
			for r := range cfg.Ranks {
				end := cfg.group(d, first)
				for i := first; i < end && r == cfg.Rank; i++ {
					if err := m.add(d, i, int64(i), &row, &cfg); err != nil {
						yield(nil, err)
						return
					}
				}
				first = end
			}
			if m.Rows() == 0 {
				m.blank(&cfg)
			}
			if !yield(&m, nil) {
				return
			}
		}
	}
}

// group is the end of the micro-batch whose first row is given.
func (c *LoaderConfig) group(d Dataset, first int) int {
	if c.MicroBatchTokens == 0 {
		return min(d.Len(), first+c.MicroBatchSize)
	}
	end, tokens := first, 0
	for ; end < d.Len(); end++ {
		if tokens += d.Tokens(end); tokens > c.MicroBatchTokens {
			break
		}
	}
	return end
}
