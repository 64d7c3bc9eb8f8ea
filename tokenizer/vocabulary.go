package tokenizer

import (
	"fmt"
	"strings"
)

// TokenKind is the use of a token, with sentencepiece's numbers.
type TokenKind int32

const (
	NormalToken  TokenKind = spNormal
	UnknownToken TokenKind = spUnknown
	ControlToken TokenKind = spControl     // special: not text
	AddedText    TokenKind = spUserDefined // always matched in text
	UnusedToken  TokenKind = spUnused      // an id without a token
	ByteToken    TokenKind = spByte        // <0x00> to <0xFF>
)

// Vocabulary is a tokenizer's tables, for formats that other programs read.
type Vocabulary struct {
	Tokens []string    // by id, as Token spells them; "" if unused
	Kinds  []TokenKind // by id
	// Pieces reports sentencepiece's BPE: characters with ▁ for spaces, merged by Scores, with byte tokens for
	// others. Otherwise it is a byte-level BPE with Merges.
	Pieces bool
	Scores []float32 // by id, with Pieces: the highest is merged first
	Merges []string  // in order: two tokens with a space between
	// Pattern names the pattern that splits text: gpt2, llama3, qwen2, or "" for none.
	Pattern string
	// SpacePrefix reports that a text begins with a space that is not in it. AddBOS and AddEOS report the
	// special tokens around a text.
	SpacePrefix, AddBOS, AddEOS bool
	Normalizes                  bool // text changes before it is split, other than by spaces and ▁
}

// Vocabulary returns the tables of a BPE tokenizer. Other models, and byte-level BPE with other patterns than those of
// GPT-2, Llama 3 and Qwen2, are an error.
func (t *Tokenizer) Vocabulary() (*Vocabulary, error) {
	v := &Vocabulary{Tokens: t.names, Kinds: make([]TokenKind, len(t.names))}
	switch m := t.model.(type) {
	case *byteBPE:
		v.Merges = t.mergeLines(m.list)
		if err := v.setPattern(t.splits); err != nil {
			return nil, fmt.Errorf("tokenizer: %s: %w", t.path, err)
		}
		v.Normalizes = t.normal != nil
	case *runeBPE:
		if !m.ByteFallback || m.fallback == nil {
			return nil, fmt.Errorf("tokenizer: %s: a BPE of characters without byte tokens has no such tables", t.path)
		}
		v.Pieces, v.Scores = true, t.scores(m)
		if t.sentencepiece != nil {
			p, err := readModelProto(t.sentencepiece)
			if err != nil {
				return nil, err
			}
			v.Normalizes = p.trimSpaces || len(p.charsMap) > 0
			for id, piece := range p.pieces {
				v.Scores[id] = piece.score
			}
		}
	default:
		return nil, fmt.Errorf("tokenizer: %s: it is not a BPE", t.path)
	}
	t.setKinds(v)
	plain, marked := t.Encode("a", Options{}), t.Encode("a", Options{AddSpecialTokens: true})
	v.SpacePrefix = len(plain) > 0 && strings.HasPrefix(t.Token(plain[0]), spSpace)
	v.AddBOS = len(marked) > len(plain) && marked[0] == t.bos
	v.AddEOS = len(marked) > len(plain) && marked[len(marked)-1] == t.eos
	return v, t.Err()
}

func (t *Tokenizer) mergeLines(list [][2]int32) []string {
	lines := make([]string, len(list))
	for i, pair := range list {
		lines[i] = t.spelled[pair[0]] + " " + t.spelled[pair[1]]
	}
	return lines
}

// scores returns minus the rank of the first merge that makes each token.
func (t *Tokenizer) scores(b *runeBPE) []float32 {
	scores := make([]float32, len(t.names))
	for rank := len(b.list) - 1; rank >= 0; rank-- {
		pair := b.list[rank]
		if id, ok := t.ids[t.spelled[pair[0]]+t.spelled[pair[1]]]; ok {
			scores[id] = -float32(rank + 1)
		}
	}
	return scores
}

// setPattern names the only step that splits text.
func (v *Vocabulary) setPattern(steps []splitter) error {
	if len(steps) == 0 {
		return nil
	}
	if len(steps) == 1 {
		switch s := steps[0].(type) {
		case gpt2Split:
			v.Pattern = "gpt2"
			return nil
		case llama3Split:
			v.Pattern = map[int]string{3: "llama3", 1: "qwen2"}[s.digits]
			return nil
		}
	}
	return fmt.Errorf("its pre_tokenizer is not that of GPT-2, Llama 3 or Qwen2")
}

func (t *Tokenizer) setKinds(v *Vocabulary) {
	for id, name := range t.names {
		_, isByte := byteOf(name)
		switch {
		case name == "":
			v.Kinds[id] = UnusedToken
		case v.Pieces && isByte:
			v.Kinds[id] = ByteToken
		default:
			v.Kinds[id] = NormalToken
		}
	}
	for _, a := range t.added {
		if v.Kinds[a.ID] = AddedText; a.Special {
			v.Kinds[a.ID] = ControlToken
		}
	}
	if m, ok := t.model.(*runeBPE); ok && m.unk >= 0 {
		v.Kinds[m.unk] = UnknownToken
	}
}

// UNK returns the token of text that the vocabulary lacks, or -1.
func (t *Tokenizer) UNK() int32 { return t.ID(configToken(t.parts.Config, "unk_token")) }
