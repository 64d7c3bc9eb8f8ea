package data

import (
	"fmt"

	"trireme/fault"
)

// MicroBatch is B rows of a dataset, concatenated: N tokens without padding. All micro-batches of a
// loader have the same nil slices.
type MicroBatch struct {
	InputIDs   []int32 // [N]
	Targets    []int32 // [N] token to predict at each position, or Ignored
	Positions  []int32 // [N] in the document
	Docs       []int32 // [N] attention is within equal values of a row; nil: one document per row
	Types      []int32 // [N] token_type_ids; nil: none
	Starts     []int32 // [B+1] start of each row, and N
	SampleKeys []int64 // [B] number of each row since the run started: a key for random numbers
	TokenKeys  []int64 // [N] the same for tokens: row number * MaxLength + offset in the row
	Classes    []int32 // [B] class label of each row; nil: none
	MaxLength  int     // maximum tokens of a row, for all micro-batches of the loader
	// MaxRows and MaxTokens are the maximums of B and N.
	MaxRows, MaxTokens int
	LabelCount         int64 // Targets, or Classes if there are any, other than Ignored
}

// UniformMicroBatch has rows of equal length up to rounding, tokens in total, with all ids,
// targets, types and classes 0. maxLength is the maximum row length.
func UniformMicroBatch(rows, tokens, maxLength int, info Info) MicroBatch {
	m := newMicroBatch(maxLength, tokens, info)
	m.MaxRows, m.MaxTokens = rows, tokens
	for i := range rows {
		n := (i+1)*tokens/rows - i*tokens/rows
		for t := range n {
			m.Positions, m.TokenKeys = append(m.Positions, int32(t)), append(m.TokenKeys, int64(i*maxLength+t))
		}
		m.Starts, m.SampleKeys = append(m.Starts, m.Starts[i]+int32(n)), append(m.SampleKeys, int64(i))
	}
	for _, s := range []*[]int32{&m.InputIDs, &m.Targets, &m.Docs, &m.Types} {
		if *s != nil {
			*s = (*s)[:tokens]
		}
	}
	if m.Classes != nil {
		m.Classes = make([]int32, rows)
	}
	if m.LabelCount = int64(tokens); m.Classes != nil {
		m.LabelCount = int64(rows)
	}
	return m
}

// newMicroBatch returns an empty micro-batch with capacity for some tokens.
func newMicroBatch(maxLength, capacity int, info Info) MicroBatch {
	slice := func() []int32 { return make([]int32, 0, capacity) }
	m := MicroBatch{MaxLength: maxLength, InputIDs: slice(), Targets: slice(), Positions: slice(), TokenKeys: make([]int64, 0, capacity), Starts: []int32{0}}
	if info.Docs {
		m.Docs = slice()
	}
	if info.Types {
		m.Types = slice()
	}
	if info.Classes {
		m.Classes = []int32{}
	}
	return m
}

// Rows returns B.
func (m *MicroBatch) Rows() int { return len(m.Starts) - 1 }

func (m *MicroBatch) reset() {
	for _, s := range []*[]int32{&m.InputIDs, &m.Targets, &m.Positions, &m.Docs, &m.Types, &m.Classes} {
		*s = (*s)[:0]
	}
	m.Starts, m.SampleKeys, m.TokenKeys, m.LabelCount = m.Starts[:1], m.SampleKeys[:0], m.TokenKeys[:0], 0
}

// add appends row i of the dataset, sample number sample of the run.
func (m *MicroBatch) add(d Dataset, i int, sample int64, row *Row, cfg *LoaderConfig) error {
	if err := d.Row(i, row); err != nil {
		return fmt.Errorf("data: %s: %w", d.Where(i), err)
	}
	if n := len(row.InputIDs); n > m.MaxLength {
		return fmt.Errorf("data: %s: %d tokens exceed sequence_length %d", d.Where(i), n, m.MaxLength)
	}
	if cfg.Vocab > 0 {
		for _, id := range row.InputIDs {
			if uint32(id) >= uint32(cfg.Vocab) {
				err := vocabError(id, cfg.Vocab)
				if largest := d.Info().MaxID; largest >= 0 { // which was within the vocabulary
					err = fault.Try(fmt.Errorf("token id %d is above %d, the largest of its token file: that file is damaged", id, largest), "write it again, or %s, if it is in the cache", fault.Set("data.cache_dir", "DIR"))
				}
				return fmt.Errorf("data: %s: %w", d.Where(i), err)
			}
		}
	}
	m.append(row, sample, cfg)
	return nil
}

// addEmpty appends a row without loss. A rank without rows left runs it, so that all ranks run the
// same number of micro-batches.
func (m *MicroBatch) addEmpty(cfg *LoaderConfig) {
	m.append(&Row{InputIDs: []int32{0}, Labels: []int32{Ignored}, Docs: []int32{-1}, Class: Ignored}, 0, cfg)
}

func (m *MicroBatch) append(row *Row, sample int64, cfg *LoaderConfig) {
	first, n := len(m.InputIDs), len(row.InputIDs)
	m.InputIDs = append(m.InputIDs, row.InputIDs...)
	labels := row.Labels
	if cfg.Task != MaskedLM {
		labels = labels[1:]
	}
	m.Targets = append(m.Targets, labels...)
	for len(m.Targets) < first+n {
		m.Targets = append(m.Targets, Ignored)
	}
	m.Starts, m.SampleKeys = append(m.Starts, int32(first+n)), append(m.SampleKeys, sample)
	ids, targets := m.InputIDs[first:], m.Targets[first:]
	if cfg.Masking != nil {
		cfg.Masking.apply(ids, targets, row.Docs, cfg.Seed, sample)
	}
	p := int32(0)
	for t := range n {
		if t > 0 && len(row.Docs) > 0 && row.Docs[t] != row.Docs[t-1] {
			p = 0
			if cfg.Task != MaskedLM { // a target in another document
				targets[t-1] = Ignored
			}
		}
		m.Positions, m.TokenKeys = append(m.Positions, p), append(m.TokenKeys, sample*int64(m.MaxLength)+int64(t))
		p++
	}
	m.Docs, m.Types = extend(m.Docs, row.Docs, n), extend(m.Types, row.Types, n)
	if m.Classes != nil {
		m.Classes = append(m.Classes, row.Class)
		for t := range targets {
			targets[t] = Ignored
		}
		if row.Class >= 0 {
			m.LabelCount++
		}
		return
	}
	for _, t := range targets {
		if t >= 0 {
			m.LabelCount++
		}
	}
}

// extend appends a row's n values, or zeros if it has none, unless dst is nil.
func extend(dst, of []int32, n int) []int32 {
	switch {
	case dst == nil:
		return nil
	case len(of) > 0:
		return append(dst, of...)
	}
	return append(dst, make([]int32, n)...)
}

func (m *MicroBatch) documents(yield func(tokens int)) {
	for i, end := range m.Starts[1:] {
		first := m.Starts[i]
		for t := first + 1; m.Docs != nil && t < end; t++ {
			if m.Docs[t] != m.Docs[t-1] {
				yield(int(t - first))
				first = t
			}
		}
		yield(int(end - first))
	}
}
