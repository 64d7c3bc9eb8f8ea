package data

import "fmt"

// MicroBatch is B rows of a dataset laid end to end, N tokens in all: nothing is padded. Which
// slices are nil is the same for all micro-batches of a loader.
type MicroBatch struct {
	InputIDs   []int32 // [N]
	Targets    []int32 // [N] what each position is to predict; Ignored is not counted
	Positions  []int32 // [N] within the document
	Docs       []int32 // [N] positions of different documents of a row do not see one another; nil: one a row
	Types      []int32 // [N] which text of a pair each position is of; nil where rows do not say
	Starts     []int32 // [B+1] the first token of each row, and the end of the last
	SampleKeys []int64 // [B] number of each row since the run began: a key for randomness
	TokenKeys  []int64 // [N] number of each token since the run began, each row having Longest
	Classes    []int32 // [B] label of each row; nil where rows have none
	MaxLength  int     // tokens of a row at most, in any micro-batch of the loader
	// MaxRows and MaxTokens bound B and N in the same way.
	MaxRows, MaxTokens int
	LabelCount         int64 // targets (or, where rows have labels of their own, Classes) that are not Ignored
}

// UniformMicroBatch is rows of equal length (but for rounding) with tokens in all, whose ids, targets,
// types and classes are 0. A row may have longest tokens.
func UniformMicroBatch(rows, tokens, longest int, info Info) MicroBatch {
	m := newMicroBatch(longest, tokens, info)
	m.MaxRows, m.MaxTokens = rows, tokens
	for i := range rows {
		n := (i+1)*tokens/rows - i*tokens/rows
		for t := range n {
			m.Positions, m.TokenKeys = append(m.Positions, int32(t)), append(m.TokenKeys, int64(i*longest+t))
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

// newMicroBatch has no rows yet, of at most longest tokens each, and room for some tokens.
func newMicroBatch(longest, room int, info Info) MicroBatch {
	slice := func() []int32 { return make([]int32, 0, room) }
	m := MicroBatch{MaxLength: longest, InputIDs: slice(), Targets: slice(), Positions: slice(), TokenKeys: make([]int64, 0, room), Starts: []int32{0}}
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

// Rows is B.
func (m *MicroBatch) Rows() int { return len(m.Starts) - 1 }

// reset takes all rows out.
func (m *MicroBatch) reset() {
	for _, s := range []*[]int32{&m.InputIDs, &m.Targets, &m.Positions, &m.Docs, &m.Types, &m.Classes} {
		*s = (*s)[:0]
	}
	m.Starts, m.SampleKeys, m.TokenKeys, m.LabelCount = m.Starts[:1], m.SampleKeys[:0], m.TokenKeys[:0], 0
}

// add appends row at of the dataset, the run's given sample.
func (m *MicroBatch) add(d Dataset, at int, sample int64, row *Row, cfg *LoaderConfig) error {
	if err := d.Row(at, row); err != nil {
		return fmt.Errorf("data: %s: %w", d.Where(at), err)
	}
	if n := len(row.InputIDs); n > m.MaxLength {
		return fmt.Errorf("data: %s: %d tokens are more than sequence_length %d", d.Where(at), n, m.MaxLength)
	}
	if cfg.Vocab > 0 {
		for _, id := range row.InputIDs {
			if uint32(id) >= uint32(cfg.Vocab) {
				return fmt.Errorf("data: %s: %w", d.Where(at), vocabError(id, cfg.Vocab))
			}
		}
	}
	m.append(row, sample, cfg)
	return nil
}

// blank appends a row that counts for nothing: a rank that has no row left runs it, so that all
// ranks run as many micro-batches.
func (m *MicroBatch) blank(cfg *LoaderConfig) {
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

// extend appends the n numbers of a row, or zeros where it has none, unless dst is nil.
func extend(dst, of []int32, n int) []int32 {
	switch {
	case dst == nil:
		return nil
	case len(of) > 0:
		return append(dst, of...)
	}
	return append(dst, make([]int32, n)...)
}

// documents gives the length of each document: a row, or where rows hold several, one of them.
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
