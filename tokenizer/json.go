package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// file is what a tokenizer.json says, once its sections are read.
type file struct {
	Added []AddedToken
	Model bpeJSON
	Parts parts
}

// bpeJSON is the section "model" of tokenizer.json.
type bpeJSON struct {
	Type         string           `json:"type"`
	Dropout      *float64         `json:"dropout"`
	Unk          *string          `json:"unk_token"`
	Prefix       *string          `json:"continuing_subword_prefix"`
	Suffix       *string          `json:"end_of_word_suffix"`
	FuseUnk      bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       []merge          `json:"merges"`
}

// merge is two tokens that become one: "a b" in older files, ["a", "b"] in newer.
type merge [2]string

func (m *merge) UnmarshalJSON(b []byte) error {
	if m.plain(b) {
		return nil
	}
	if len(b) > 0 && b[0] == '[' {
		var list []string
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		if len(list) != 2 {
			return fmt.Errorf("model: a merge of %d tokens", len(list))
		}
		*m = merge{list[0], list[1]}
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	left, right, ok := strings.Cut(s, " ")
	if !ok || strings.Contains(right, " ") {
		return fmt.Errorf("model: merge %.40q is not two tokens", s)
	}
	*m = merge{left, right}
	return nil
}

// plain reads a merge without escapes, as nearly all are, some ten times faster. b is valid
// JSON.
func (m *merge) plain(b []byte) bool {
	if bytes.IndexByte(b, '\\') >= 0 || !utf8.Valid(b) {
		return false
	}
	part := strings.Split(string(b), `"`)
	switch {
	case len(part) == 3 && part[0] == "":
		left, right, ok := strings.Cut(part[1], " ")
		*m = merge{left, right}
		return ok && !strings.Contains(right, " ")
	case len(part) == 5 && part[0] == "[" && part[4] == "]":
		*m = merge{part[1], part[3]}
		return true
	}
	return false
}

// parse reads a tokenizer.json.
func parse(blob []byte, config map[string]any) (*Tokenizer, error) {
	var top struct {
		Added         []AddedToken    `json:"added_tokens"`
		Normalizer    json.RawMessage `json:"normalizer"`
		PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
		PostProcessor json.RawMessage `json:"post_processor"`
		Decoder       json.RawMessage `json:"decoder"`
		Model         json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(blob, &top); err != nil {
		return nil, err
	}
	if absent(top.Model) {
		return nil, fmt.Errorf("no model section")
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(top.Model, &kind); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if kind.Type != "" && kind.Type != "BPE" {
		return nil, fmt.Errorf("model: type %q is not supported", kind.Type)
	}
	f := file{Added: top.Added, Parts: parts{top.Normalizer, top.PreTokenizer, top.PostProcessor, top.Decoder, config}}
	if err := json.Unmarshal(top.Model, &f.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return f.build()
}

// absent says whether a section is missing or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// build makes the chain.
func (f *file) build() (*Tokenizer, error) {
	t := &Tokenizer{parts: f.Parts, added: f.Added, special: map[int32]bool{}}
	if err := f.setTokens(t); err != nil {
		return nil, err
	}
	if err := t.setNormalizer(f.Parts.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	p := preTokenizer{}
	if err := p.add(f.Parts.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if !p.byteLevel {
		return nil, fmt.Errorf("pre_tokenizer: a BPE that is not byte-level is not supported")
	}
	t.splits = p.splits
	if err := t.setPostProcessor(f.Parts.PostProcessor); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if err := checkDecoder(f.Parts.Decoder); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	if err := f.setModel(t); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	normal := t.normal
	if normal == nil {
		normal = func(s string) string { return s }
	}
	t.raw = newMatcher(t.added, false, normal)
	t.cooked = newMatcher(t.added, true, normal)
	t.setEnds()
	return t, nil
}

// setTokens fills in the tables of tokens: those of the vocabulary as the bytes they stand
// for, added ones as they are.
func (f *file) setTokens(t *Tokenizer) error {
	if len(f.Model.Vocab) == 0 {
		return fmt.Errorf("model: the vocabulary is empty")
	}
	top := int32(-1)
	limit := int32(2*(len(f.Model.Vocab)+len(f.Added)) + 1<<16)
	for token, id := range f.Model.Vocab {
		if id < 0 || id > limit {
			return fmt.Errorf("model: token %.40q has id %d in a vocabulary of %d", token, id, len(f.Model.Vocab))
		}
		top = max(top, id)
	}
	for _, a := range f.Added {
		if a.ID < 0 || a.ID > limit {
			return fmt.Errorf("added_tokens: %.40q has id %d in a vocabulary of %d", a.Content, a.ID, len(f.Model.Vocab))
		}
		top = max(top, a.ID)
	}
	t.tokens, t.spelled = make([]string, top+1), make([]string, top+1)
	t.inModel = make([]bool, top+1)
	t.ids = make(map[string]int32, len(f.Model.Vocab)+len(f.Added))
	for token, id := range f.Model.Vocab {
		if old := t.spelled[id]; t.inModel[id] {
			return fmt.Errorf("model: tokens %.40q and %.40q have one id, %d", min(old, token), max(old, token), id)
		}
		t.tokens[id], _ = fromRunes(token)
		t.spelled[id] = token
		t.ids[token] = id
		t.inModel[id] = true
	}
	sort.SliceStable(t.added, func(i, j int) bool { return t.added[i].ID < t.added[j].ID })
	for _, a := range t.added {
		t.tokens[a.ID], t.spelled[a.ID] = a.Content, a.Content
		t.ids[a.Content] = a.ID
		if a.Special {
			t.special[a.ID] = true
		}
	}
	return nil
}

// setModel builds the merges. Bytes are looked up by their own spelling, so that an added
// token of one character does not stand in for a byte.
func (f *file) setModel(t *Tokenizer) error {
	m := &f.Model
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("dropout %v is not supported", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("continuing_subword_prefix %q is not supported", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("end_of_word_suffix %q is not supported", *m.Suffix)
	case m.ByteFallback:
		return fmt.Errorf("byte_fallback is not supported")
	}
	// Only spellings within the alphabet stand for bytes to the merges.
	ids := make(map[string]int32, len(m.Vocab))
	tokens := make([]string, len(t.tokens))
	for token, id := range m.Vocab {
		if s, ok := fromRunes(token); ok {
			ids[s], tokens[id] = id, s
		}
	}
	list := make([][2]int32, len(m.Merges))
	for i, pair := range m.Merges {
		for k, token := range pair {
			id, ok := m.Vocab[token]
			if !ok || tokens[id] == "" {
				return fmt.Errorf("merge %d joins %.40q, which the vocabulary lacks", i, token)
			}
			list[i][k] = id
		}
	}
	b, err := newBPE(tokens, ids, list)
	if err != nil {
		return err
	}
	if m.Unk != nil {
		id, ok := t.ids[*m.Unk]
		if !ok {
			return fmt.Errorf("unk_token %q is not in the vocabulary", *m.Unk)
		}
		b.unk = id
	}
	if m.IgnoreMerges {
		b.whole = ids
	}
	t.model = b
	return nil
}
