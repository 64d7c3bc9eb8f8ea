package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Save writes tokenizer.json and tokenizer_config.json into a directory, which is made if
// it is not there.
func (t *Tokenizer) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	body, err := t.MarshalJSON()
	if err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	config, err := t.config()
	if err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	for name, blob := range map[string][]byte{"tokenizer.json": body, "tokenizer_config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, name), blob, 0o644); err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
	}
	return nil
}

// MarshalJSON is the text of tokenizer.json. The same tokenizer always gives the same
// bytes.
func (t *Tokenizer) MarshalJSON() ([]byte, error) {
	b, ok := t.model.(*bpe)
	if !ok {
		return nil, fmt.Errorf("a model of type %s cannot be written", t.model.kind())
	}
	type modelJSON struct {
		Type         string          `json:"type"`
		Dropout      *float64        `json:"dropout"`
		Unk          *string         `json:"unk_token"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		Suffix       *string         `json:"end_of_word_suffix"`
		FuseUnk      bool            `json:"fuse_unk"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       []merge         `json:"merges"`
	}
	m := modelJSON{Type: "BPE", IgnoreMerges: b.whole != nil, Merges: make([]merge, len(b.list))}
	if b.unk >= 0 {
		m.Unk = &t.spelled[b.unk]
	}
	for i, pair := range b.list {
		m.Merges[i] = merge{t.spelled[pair[0]], t.spelled[pair[1]]}
	}
	var err error
	if m.Vocab, err = t.vocabJSON(); err != nil {
		return nil, err
	}
	added := t.added
	if added == nil {
		added = []AddedToken{}
	}
	return plainJSON(struct {
		Version       string          `json:"version"`
		Truncation    *int            `json:"truncation"`
		Padding       *int            `json:"padding"`
		Added         []AddedToken    `json:"added_tokens"`
		Normalizer    json.RawMessage `json:"normalizer"`
		PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
		PostProcessor json.RawMessage `json:"post_processor"`
		Decoder       json.RawMessage `json:"decoder"`
		Model         modelJSON       `json:"model"`
	}{"1.0", nil, nil, added, null(t.parts.Normalizer), null(t.parts.PreTokenizer), null(t.parts.PostProcessor), null(t.parts.Decoder), m}, "  ")
}

// vocabJSON is the vocabulary in the order of ids.
func (t *Tokenizer) vocabJSON() (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	out.WriteByte('{')
	for id, token := range t.spelled {
		if !t.inModel[id] {
			continue // an added token need not be in the model's vocabulary
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		if err := e.Encode(token); err != nil {
			return nil, err
		}
		out.Truncate(out.Len() - 1) // the encoder's line feed
		out.WriteByte(':')
		out.WriteString(strconv.Itoa(id))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// Digest names what the tokenizer does: the same text gives the same ids under the same
// digest.
func (t *Tokenizer) Digest() [32]byte {
	h := sha256.New()
	put := func(s string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	for id, token := range t.spelled {
		put(token)
		put(t.tokens[id])
		put(strconv.FormatBool(t.inModel[id]))
	}
	for _, raw := range []json.RawMessage{t.parts.Normalizer, t.parts.PreTokenizer, t.parts.PostProcessor} {
		var b bytes.Buffer
		if !absent(raw) && json.Compact(&b, raw) == nil {
			put(b.String())
		}
		put("")
	}
	put(fmt.Sprint(t.added, t.bos, t.eos, t.model.kind()))
	t.model.describe(h)
	return [32]byte(h.Sum(nil))
}

// describe writes what else the model depends on, for the digest.
func (b *bpe) describe(w io.Writer) {
	fmt.Fprintln(w, b.unk, b.whole != nil, len(b.list))
	buf := make([]byte, 0, 8*len(b.list))
	for _, m := range b.list {
		buf = binary.LittleEndian.AppendUint64(buf, pairKey(m[0], m[1]))
	}
	w.Write(buf)
}

func null(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// plainJSON is JSON as Hugging Face writes it: < and > are not escaped.
func plainJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}

// config is the text of tokenizer_config.json: what was read, and the special tokens.
func (t *Tokenizer) config() ([]byte, error) {
	c := map[string]any{}
	for k, v := range t.parts.Config {
		c[k] = v
	}
	if _, ok := c["tokenizer_class"]; !ok {
		c["tokenizer_class"] = "PreTrainedTokenizerFast"
	}
	for key, id := range map[string]int32{"bos_token": t.bos, "eos_token": t.eos, "pad_token": t.pad} {
		if _, ok := c[key]; !ok && id >= 0 {
			c[key] = t.spelled[id]
		}
	}
	return plainJSON(c, "  ")
}
