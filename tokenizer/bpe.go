package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// bpeOptions are the fields of a BPE model in tokenizer.json besides its tables. Dropout is
// ignored: it is for training only.
type bpeOptions struct {
	Dropout      *float64 `json:"dropout"`
	Unk          *string  `json:"unk_token"`
	Prefix       *string  `json:"continuing_subword_prefix"`
	Suffix       *string  `json:"end_of_word_suffix"`
	FuseUnk      bool     `json:"fuse_unk"`
	ByteFallback bool     `json:"byte_fallback"`
	IgnoreMerges bool     `json:"ignore_merges"`
}

// bpeTables are common to byteBPE and runeBPE.
type bpeTables struct {
	bpeOptions
	merges pairTable
	list   [][2]int32 // merges in order, for Save
	unk    int32      // or -1
}

// tables resolves the tokens of a file's merges.
func (f *bpeJSON) tables() (bpeTables, error) {
	b := bpeTables{bpeOptions: f.bpeOptions, unk: -1, list: make([][2]int32, len(f.Merges)), merges: newPairTable(len(f.Merges))}
	prefix := value(f.Prefix)
	for rank, m := range f.Merges {
		for k, token := range m {
			id, ok := f.Vocab[token]
			if !ok {
				return b, fmt.Errorf("merge %d has %.40q, which is not in the vocabulary", rank, token)
			}
			b.list[rank][k] = id
		}
		if len(m[1]) < len(prefix) {
			return b, fmt.Errorf("merge %d has %.40q without the continuing_subword_prefix %q", rank, m[1], prefix)
		}
		joined := m[0] + m[1][len(prefix):]
		id, ok := f.Vocab[joined]
		if !ok {
			return b, fmt.Errorf("merge %d of %.40q and %.40q needs %.80q, which is not in the vocabulary", rank, m[0], m[1], joined)
		}
		b.merges.put(b.list[rank][0], b.list[rank][1], uint32(rank), id)
	}
	if f.Unk != nil {
		id, ok := f.Vocab[*f.Unk]
		if !ok {
			return b, fmt.Errorf("unk_token %.40q is not in the vocabulary", *f.Unk)
		}
		b.unk = id
	}
	return b, nil
}

func (b *bpeTables) section(t *Tokenizer) (any, error) {
	merges := make([]merge, len(b.list))
	for i, pair := range b.list {
		merges[i] = merge{t.spelled[pair[0]], t.spelled[pair[1]]}
	}
	vocab, err := t.vocabJSON()
	return struct {
		Type string `json:"type"`
		bpeOptions
		Vocab  json.RawMessage `json:"vocab"`
		Merges []merge         `json:"merges"`
	}{"BPE", b.bpeOptions, vocab, merges}, err
}

func (b *bpeTables) describe(w io.Writer) {
	fmt.Fprintln(w, "BPE", b.unk, value(b.Prefix), value(b.Suffix), b.FuseUnk, b.ByteFallback, b.IgnoreMerges, len(b.list))
	buf := make([]byte, 0, 8*len(b.list))
	for _, m := range b.list {
		buf = binary.LittleEndian.AppendUint64(buf, pairKey(m[0], m[1]))
	}
	w.Write(buf)
}

// value returns *p, or "" for nil.
func value(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// byteBPE merges bytes.
type byteBPE struct {
	bpeTables
	bytes [256]int32       // token of each byte, or -1
	whole map[string]int32 // pieces that bypass the merges (ignore_merges), or nil
}

var _ model = (*byteBPE)(nil)

// newByteBPE reads a vocabulary in GPT-2's alphabet. ok is false if the model needs runeBPE: for
// unknown bytes, or prefixes or suffixes of words.
func newByteBPE(f *bpeJSON, tables bpeTables) (b *byteBPE, ok bool) {
	b = &byteBPE{bpeTables: tables}
	for i, r := range byteRunes {
		id, ok := f.Vocab[string(r)]
		if !ok && (f.FuseUnk && b.unk >= 0 || f.ByteFallback) {
			return nil, false
		}
		if !ok {
			id = -1
		}
		b.bytes[i] = id
	}
	if value(f.Prefix) != "" || value(f.Suffix) != "" {
		return nil, false
	}
	if f.IgnoreMerges {
		b.whole = make(map[string]int32, len(f.Vocab))
		for token, id := range f.Vocab {
			if s, ok := fromRunes(token); ok {
				b.whole[s] = id
			}
		}
	}
	return b, true
}

func (b *byteBPE) encode(dst []int32, piece string, s *scratch) []int32 {
	if b.whole != nil {
		if id, ok := b.whole[piece]; ok {
			return append(dst, id)
		}
	}
	n := len(dst)
	for i := range len(piece) {
		if id := b.bytes[piece[i]]; id >= 0 {
			dst = append(dst, id)
		} else if b.unk >= 0 {
			dst = append(dst, b.unk)
		}
	}
	return dst[:n+b.merges.merge(dst[n:], s)]
}

// runeBPE merges characters. A character outside the vocabulary becomes byte tokens, if any, else
// the unknown token.
type runeBPE struct {
	bpeTables
	ascii    [utf8.RuneSelf]int32 // token of each character, or -1
	runes    map[rune]int32
	fallback *byteTokens      // or nil
	vocab    map[string]int32 // for words with prefix or suffix, or ignore_merges; else nil
	own      *trie            // tokens matched before merging, longest first, and not merged; or nil
}

var _ model = (*runeBPE)(nil)

func newRuneBPE(vocab map[string]int32, tables bpeTables) *runeBPE {
	b := &runeBPE{bpeTables: tables, runes: map[rune]int32{}}
	for i := range b.ascii {
		b.ascii[i] = -1
	}
	for token, id := range vocab {
		r, n := utf8.DecodeRuneInString(token)
		switch {
		case n == 0 || n < len(token) || r == utf8.RuneError && n == 1:
		case r < utf8.RuneSelf:
			b.ascii[r] = id
		default:
			b.runes[r] = id
		}
	}
	if b.ByteFallback {
		b.fallback, _ = findByteTokens(vocab)
	}
	if value(b.Prefix) != "" || value(b.Suffix) != "" || b.IgnoreMerges {
		b.vocab = vocab
	}
	return b
}

func (b *runeBPE) encode(dst []int32, piece string, s *scratch) []int32 {
	if b.IgnoreMerges {
		if id, ok := b.vocab[piece]; ok {
			return append(dst, id)
		}
	}
	n := len(dst)
	waiting := false // a pending unknown token, for fuse_unk
	for i := 0; i < len(piece); {
		id, m := int32(-1), 0
		if b.own != nil {
			id, m = b.own.longest(piece[i:])
		}
		if m == 0 {
			id, m = b.symbol(piece, i)
		}
		at := i
		i += m
		if id >= 0 {
			if waiting {
				dst, waiting = append(dst, b.unk), false
			}
			dst = append(dst, id)
			continue
		}
		if b.fallback != nil {
			var ok bool
			if dst, ok = b.fallback.appendAll(dst, piece[at:i]); ok {
				continue
			}
		}
		if b.unk >= 0 {
			if waiting && !b.FuseUnk {
				dst = append(dst, b.unk)
			}
			waiting = true
		}
	}
	if waiting {
		dst = append(dst, b.unk)
	}
	return dst[:n+b.merges.merge(dst[n:], s)]
}

// symbol returns the token of the character at piece[i], or -1, and its length.
func (b *runeBPE) symbol(piece string, i int) (int32, int) {
	r, n := runeAt(piece, i)
	if value(b.Prefix) != "" || value(b.Suffix) != "" {
		c := piece[i : i+n]
		if i > 0 {
			c = value(b.Prefix) + c
		}
		if i+n == len(piece) {
			c += value(b.Suffix)
		}
		if id, ok := b.vocab[c]; ok {
			return id, n
		}
		return -1, n
	}
	if r < utf8.RuneSelf {
		return b.ascii[r], n
	}
	if r == utf8.RuneError && n == 1 && b.fallback != nil {
		return -1, n // not UTF-8
	}
	if id, ok := b.runes[r]; ok {
		return id, n
	}
	return -1, n
}
