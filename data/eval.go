package data

import (
	"iter"

	"trireme/flight"
	"trireme/trace"
)

// EvalBatches yields one rank's share of a dataset once, in order. Groups of MicroBatchSize rows,
// or of rows up to MicroBatchTokens, go to the ranks round-robin. All ranks yield the same
// number of micro-batches; a rank without rows left yields one without loss. A micro-batch is valid
// until the next. Shuffle, DropLast, Accumulation and Prefetch are ignored; Seed is used by
// Masking.
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
				if r == cfg.Rank {
					if err := m.addRows(d, first, end, &row, &cfg); err != nil {
						yield(nil, err)
						return
					}
				}
				first = end
			}
			if m.Rows() == 0 {
				m.addEmpty(&cfg)
			}
			if !yield(&m, nil) {
				return
			}
		}
	}
}

// addRows adds the rows [first, end) of an evaluation.
func (m *MicroBatch) addRows(d Dataset, first, end int, row *Row, cfg *LoaderConfig) error {
	if cfg.Recorder != nil && first < end {
		defer cfg.Recorder.Leave(cfg.Recorder.Enter(flight.Loading, d.Where(first)))
	}
	defer cfg.Trace.End(cfg.Trace.Begin(trace.Span{Kind: trace.Data}))
	for i := first; i < end; i++ {
		if err := m.add(d, i, int64(i), row, cfg); err != nil {
			return err
		}
	}
	return nil
}

// group returns the end of the micro-batch that starts at row first.
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
