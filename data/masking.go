package data

import (
	"errors"

	"trireme/fault"
	"trireme/internal/kernel"
	"trireme/tokenizer"
)

const defaultMLMProbability = 0.15

// Masking selects tokens for masked language modeling (Devlin et al., BERT: pre-training of deep
// bidirectional transformers, 2019, 3.1): each token that is not special is selected with a
// probability. 80% of the selected tokens become the mask token, 10% a random token, and 10% stay.
// The choice depends on the seed, the sample number and the position alone, so it differs between
// epochs and is the same for any number of ranks.
type Masking struct {
	chosen  uint64 // probability times 2^32
	mask    int32
	special []bool // by id
}

// maskStream separates these random numbers from others with the same seed.
const maskStream = 0x6d61736b // "mask"

// newMasking selects tokens with probability p; 0 is the default.
func newMasking(tok *tokenizer.Tokenizer, p float64) (*Masking, error) {
	if p == 0 {
		p = defaultMLMProbability
	}
	m := &Masking{chosen: uint64(p * (1 << 32)), mask: -1, special: make([]bool, tok.VocabSize())}
	for id := range m.special {
		m.special[id] = tok.IsSpecial(int32(id))
	}
	for _, name := range []string{tok.SpecialTokens()["mask_token"], "[MASK]", "<mask>"} {
		if m.mask < 0 && name != "" {
			m.mask = tok.ID(name)
		}
	}
	if m.mask < 0 {
		return nil, fault.Try(errors.New("data: the model predicts masked tokens, but the tokenizer has no mask token"), "the model's own tokenizer, or rows with labels")
	}
	m.special[m.mask] = true
	return m, nil
}

// apply masks ids in place and sets targets: the original token where selected, else Ignored.
// Positions with docs below 0 are not selected; docs may be empty.
func (m *Masking) apply(ids, targets, docs []int32, seed uint64, sample int64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for t, id := range ids {
		targets[t] = Ignored
		if int(id) < len(m.special) && m.special[id] || len(docs) > 0 && docs[t] < 0 {
			continue
		}
		w := kernel.Philox([4]uint32{uint32(sample), uint32(sample >> 32), uint32(t), maskStream}, key)
		if uint64(w[0]) >= m.chosen {
			continue
		}
		targets[t] = id
		switch tenth := uint64(w[1]) * 10 >> 32; {
		case tenth < 8:
			ids[t] = m.mask
		case tenth == 8:
			ids[t] = int32(uint64(w[2]) * uint64(len(m.special)) >> 32)
		}
	}
}
