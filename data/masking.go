package data

import (
	"errors"

	"trireme/fault"
	"trireme/internal/kernel"
	"trireme/tokenizer"
)

// maskedPart is how many of a row's tokens are chosen unless something else is said.
const defaultMLMProbability = 0.15

// Masking hides tokens of rows for a model that is to tell which they were (Devlin et al.,
// BERT: pre-training of deep bidirectional transformers, 2019, 3.1): each token that is not
// special is chosen with a probability; of those chosen 8 in 10 become the mask token, 1 in
// 10 some token, and 1 in 10 stays. Which, depends on the seed, the sample's number in the
// run and the position alone, so it is another choice each epoch, and the same for any
// number of ranks.
type Masking struct {
	chosen  uint64 // of 2^32
	mask    int32
	special []bool // by id
}

// maskStream keeps these random numbers apart from others of the seed.
const maskStream = 0x6d61736b // "mask"

// newMasking chooses part of the tokens; 0 is the usual.
func newMasking(tok *tokenizer.Tokenizer, part float64) (*Masking, error) {
	if part == 0 {
		part = defaultMLMProbability
	}
	m := &Masking{chosen: uint64(part * (1 << 32)), mask: -1, special: make([]bool, tok.VocabSize())}
	for id := range m.special {
		m.special[id] = tok.IsSpecial(int32(id))
	}
	for _, name := range []string{tok.SpecialTokens()["mask_token"], "[MASK]", "<mask>"} {
		if m.mask < 0 && name != "" {
			m.mask = tok.ID(name)
		}
	}
	if m.mask < 0 {
		return nil, fault.Try(errors.New("data: the model fills in masked tokens, and the tokenizer has no mask token"), "the model's own tokenizer, or rows with labels")
	}
	m.special[m.mask] = true
	return m, nil
}

// hide changes ids, and fills in targets: the tokens that were chosen, else Ignored. Of
// positions in documents below 0 none is chosen; docs may be empty.
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
