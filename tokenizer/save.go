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

// Save writes tokenizer.json (or tokenizer.model, if loaded from one) and tokenizer_config.json to
// dir, creating it if needed.
func (t *Tokenizer) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	name, body := fileModel, t.sentencepiece
	if body == nil {
		var err error
		if body, err = t.MarshalJSON(); err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
		name = fileJSON
	}
	config, err := t.config()
	if err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	for name, blob := range map[string][]byte{name: body, fileConfig: config} {
		if err := os.WriteFile(filepath.Join(dir, name), blob, 0o644); err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
	}
	return nil
}

// MarshalJSON returns tokenizer.json, deterministically. It fails for a tokenizer loaded from
// tokenizer.model.
func (t *Tokenizer) MarshalJSON() ([]byte, error) {
	if t.sentencepiece != nil {
		return nil, fmt.Errorf("a tokenizer loaded from tokenizer.model cannot be saved as tokenizer.json")
	}
	model, err := t.model.section(t)
	if err != nil {
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
		Model         any             `json:"model"`
	}{"1.0", nil, nil, added, null(t.parts.Normalizer), null(t.parts.PreTokenizer), null(t.parts.PostProcessor), null(t.parts.Decoder), model}, "  ")
}

// vocabJSON returns the vocabulary in id order.
func (t *Tokenizer) vocabJSON() (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	out.WriteByte('{')
	for id, token := range t.spelled {
		if !t.inModel[id] {
			continue // an added token outside the model's vocabulary
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		if err := e.Encode(token); err != nil {
			return nil, err
		}
		out.Truncate(out.Len() - 1) // the encoder's newline
		out.WriteByte(':')
		out.WriteString(strconv.Itoa(id))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// Digest identifies the mapping from text to ids: equal digests give equal ids.
func (t *Tokenizer) Digest() [32]byte {
	h := sha256.New()
	put := func(s string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	for id, token := range t.spelled {
		put(token)
		put(t.texts[id])
		put(strconv.FormatBool(t.inModel[id]))
	}
	for _, raw := range []json.RawMessage{t.parts.Normalizer, t.parts.PreTokenizer, t.parts.PostProcessor} {
		var b bytes.Buffer
		if !absent(raw) && json.Compact(&b, raw) == nil {
			put(b.String())
		}
		put("")
	}
	put(fmt.Sprint(t.added, t.bos, t.eos, t.template))
	if put(string(t.sentencepiece)); t.sentencepiece != nil {
		put(fmt.Sprint(t.parts.Config["legacy"], t.parts.Config["add_prefix_space"]))
	}
	t.model.describe(h)
	return [32]byte(h.Sum(nil))
}

func null(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// plainJSON writes JSON like Hugging Face: < and > are not escaped.
func plainJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}

// config returns tokenizer_config.json: as read, with the special tokens.
func (t *Tokenizer) config() ([]byte, error) {
	c := map[string]any{}
	for k, v := range t.parts.Config {
		c[k] = v
	}
	delete(c, fileAddedTokens)
	if t.sentencepiece != nil {
		byID := map[string]AddedToken{}
		for _, a := range t.added {
			byID[strconv.Itoa(int(a.ID))] = a
		}
		c["added_tokens_decoder"] = byID
	}
	if _, ok := c["tokenizer_class"]; !ok {
		c["tokenizer_class"] = "PreTrainedTokenizerFast"
	}
	for key, id := range map[string]int32{"bos_token": t.bos, "eos_token": t.eos, "pad_token": t.pad} {
		if _, ok := c[key]; !ok && id >= 0 {
			c[key] = t.names[id]
		}
	}
	return plainJSON(c, "  ")
}
