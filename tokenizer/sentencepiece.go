package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const spSpace = string(spaceRune)

// fromSentencePiece builds the tokenizer of a tokenizer.model with tokenizer_config.json's special
// tokens. As in LlamaTokenizer, <s> precedes a text unless add_bos_token is false.
func fromSentencePiece(blob []byte, config map[string]any) (*Tokenizer, error) {
	m, err := readModelProto(blob)
	if err != nil {
		return nil, err
	}
	vocab := make(map[string]int32, len(m.pieces))
	names := map[string]any{}
	for id, p := range m.pieces {
		vocab[p.text] = int32(id)
		if p.kind == spUnknown {
			names["unk_token"] = p.text
		}
	}
	for key, name := range map[string]string{"bos_token": "<s>", "eos_token": "</s>"} {
		if id, ok := vocab[name]; ok && m.pieces[id].kind == spControl {
			names[key] = name
		}
	}
	t := &Tokenizer{sentencepiece: blob, parts: parts{Config: withNames(config, names)}}
	var control []string
	for _, p := range m.pieces {
		if p.kind == spControl || p.kind == spUnknown {
			control = append(control, p.text)
		}
	}
	if t.added, err = addedTokens(t.parts.Config, vocab, control); err != nil {
		return nil, err
	}
	if err := t.setVocab(vocab); err != nil {
		return nil, err
	}
	own := m.userDefined()
	switch m.kind {
	case spBPE:
		t.model, err = m.bpe(vocab, own)
	case spUnigram:
		t.model = m.unigram(vocab)
	default:
		err = fmt.Errorf("model_type %d is not supported: only unigram (1) and BPE (2) are", m.kind)
	}
	if err != nil {
		return nil, err
	}
	if err := t.spNormalizer(m, own); err != nil {
		return nil, err
	}
	t.decoder = m.decoder()
	t.finish()
	t.template = t.ends()
	return t, nil
}

// userDefined returns the user-defined pieces, which always match; nil if none.
func (m *spModel) userDefined() *trie {
	var keys []trieKey
	for id, p := range m.pieces {
		if p.kind == spUserDefined {
			keys = append(keys, trieKey{p.text, int32(id)})
		}
	}
	if keys == nil {
		return nil
	}
	return newTrie(keys)
}

// bpe builds merges: the adjacent pair whose merged piece has the highest score goes first, so
// every split of a piece in two is a merge.
func (m *spModel) bpe(vocab map[string]int32, own *trie) (*runeBPE, error) {
	var order []int32
	for id, p := range m.pieces {
		switch p.kind {
		case spUnused:
			return nil, fmt.Errorf("piece %d, %.40q, is of type unused, which is not supported in a BPE model", id, p.text)
		case spNormal:
			order = append(order, int32(id))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch x, y := m.pieces[a].score, m.pieces[b].score; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	normal := func(s string) (int32, bool) {
		id, ok := vocab[s]
		return id, ok && m.pieces[id].kind == spNormal
	}
	tables := bpeTables{bpeOptions: bpeOptions{FuseUnk: true, ByteFallback: m.byteFallback}, unk: m.unknown()}
	var ranks []uint32 // pieces of equal score have equal rank: leftmost first
	for i, id := range order {
		if i == 0 || m.pieces[id].score != m.pieces[order[i-1]].score {
			ranks = append(ranks, uint32(i))
		} else {
			ranks = append(ranks, ranks[i-1])
		}
	}
	var results [][2]uint32 // rank and result of tables.list
	for i, id := range order {
		text := m.pieces[id].text
		for cut := range text {
			if cut == 0 {
				continue
			}
			l, ok := normal(text[:cut])
			if !ok {
				continue
			}
			if r, ok := normal(text[cut:]); ok {
				tables.list = append(tables.list, [2]int32{l, r})
				results = append(results, [2]uint32{ranks[i], uint32(id)})
			}
		}
	}
	tables.merges = newPairTable(len(tables.list))
	for i, pair := range tables.list {
		tables.merges.put(pair[0], pair[1], results[i][0], int32(results[i][1]))
	}
	chars := make(map[string]int32, len(vocab))
	for text, id := range vocab {
		if k := m.pieces[id].kind; k == spNormal || k == spByte {
			chars[text] = id
		}
	}
	b := newRuneBPE(chars, tables)
	b.own = own
	return b, nil
}

func (m *spModel) unknown() int32 {
	return int32(slices.IndexFunc(m.pieces, func(p spPiece) bool { return p.kind == spUnknown }))
}

// unigram builds the unigram model with float32 sums. User-defined pieces get a score above any
// other path.
func (m *spModel) unigram(vocab map[string]int32) *unigram {
	u := &unigram{single: true, unk: m.unknown(), scores: make([]float64, len(m.pieces))}
	least, most := float32(math.MaxFloat32), float32(0x1p-126) // sentencepiece starts from the smallest positive float
	for _, p := range m.pieces {
		if p.kind == spNormal {
			least, most = min(least, p.score), max(most, p.score)
		}
	}
	var keys []trieKey
	for id, p := range m.pieces {
		switch p.kind {
		case spNormal:
			u.scores[id] = float64(p.score)
		case spUserDefined:
			u.scores[id] = float64(float32(len(p.text))*most) - 0.1
		default:
			continue
		}
		keys = append(keys, trieKey{p.text, int32(id)})
	}
	u.tokens, u.penalty = newTrie(keys), float64(least-unkPenalty)
	if m.byteFallback {
		u.fallback, _ = findByteTokens(vocab)
	}
	return u
}

// spNormalizer builds the normalizer. With legacy: false, Hugging Face prepends a space only to the
// start of a text, not after each special token.
func (t *Tokenizer) spNormalizer(m *spModel, own *trie) error {
	n := spNormalizing{model: m, own: own}
	var err error
	if n.chars, err = readCharsMap(m.charsMap); err != nil {
		return err
	}
	n.prefix = m.dummyPrefix
	if v, ok := t.parts.Config["add_prefix_space"].(bool); ok && !v {
		n.prefix = false
	}
	if legacy, ok := t.parts.Config["legacy"].(bool); ok && !legacy && n.prefix && !m.suffix && m.escapeSpaces {
		n.prefix = false
		t.splits = append(t.splits, metaspace{mark: spSpace, scheme: "first", whole: true})
	}
	t.normal = n.normalize
	return nil
}

// spNormalizing is sentencepiece's normalizer.
type spNormalizing struct {
	model  *spModel
	chars  *charsMap
	own    *trie
	prefix bool
}

func (n *spNormalizing) normalize(s string) string {
	m := n.model
	space := " "
	if m.escapeSpaces {
		space = spSpace
	}
	if n.chars == nil && n.own == nil && !m.trimSpaces && !m.suffix && m.byteFallback {
		if n.prefix && s != "" {
			s = " " + s
		}
		return strings.ReplaceAll(s, " ", space)
	}
	if m.trimSpaces {
		for s != "" {
			text, k := n.chars.longest(s, n.own, m.byteFallback)
			if text != " " {
				break
			}
			s = s[k:]
		}
	}
	if s == "" {
		return ""
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	if n.prefix && !m.suffix {
		b.WriteString(space)
	}
	for after := m.trimSpaces; s != ""; { // after: the previous character is a space, and no other may follow
		text, k := n.chars.longest(s, n.own, m.byteFallback)
		for after && strings.HasPrefix(text, " ") {
			text = text[1:]
		}
		if text != "" {
			b.WriteString(strings.ReplaceAll(text, " ", space))
			after = m.trimSpaces && strings.HasSuffix(text, " ")
		}
		s = s[k:]
	}
	out := b.String()
	if m.trimSpaces {
		for strings.HasSuffix(out, space) {
			out = strings.TrimSuffix(out, space)
		}
	}
	if n.prefix && m.suffix {
		out += space
	}
	return out
}

// decoder returns the decoder: bytes, spaces, and removal of the prepended space.
func (m *spModel) decoder() decoder {
	d := decoder{fused: true, edge: " "}
	switch {
	case m.suffix && m.dummyPrefix:
		d.right = 1
	case m.suffix:
	case m.trimSpaces:
		d.left = math.MaxInt
	case m.dummyPrefix:
		d.left = 1
	}
	d.everywhere(func(token string) string {
		if b, ok := byteOf(token); ok && m.byteFallback {
			return string([]byte{b})
		}
		if m.escapeSpaces {
			token = strings.ReplaceAll(token, spSpace, " ")
		}
		return token
	})
	return d
}
