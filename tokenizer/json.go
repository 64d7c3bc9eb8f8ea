package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// parts are the raw sections of tokenizer.json, for Save.
type parts struct {
	Normalizer    json.RawMessage
	PreTokenizer  json.RawMessage
	PostProcessor json.RawMessage
	Decoder       json.RawMessage
	Config        map[string]any // tokenizer_config.json, or nil
}

// bpeJSON is the section "model" of tokenizer.json.
type bpeJSON struct {
	Type string `json:"type"`
	bpeOptions
	Vocab  map[string]int32 `json:"vocab"`
	Merges []merge          `json:"merges"`
}

// merge is a pair of tokens: "a b" in older files, ["a", "b"] in newer.
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
			return fmt.Errorf("a merge of %d tokens", len(list))
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
		return fmt.Errorf("merge %.40q is not two tokens", s)
	}
	*m = merge{left, right}
	return nil
}

// plain decodes a merge without escapes, the common case, about ten times faster. b is valid JSON.
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

// absent reports whether a section is missing or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// decode is json.Unmarshal with errors in terms of the file.
func decode(b []byte, v any) error {
	err := json.Unmarshal(b, v)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		what := "it"
		if kind.Field != "" {
			what = kind.Field
		}
		return fmt.Errorf("%s is %s, an unexpected JSON type", what, article(kind.Value))
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON, at byte %d: %w", syntax.Offset, err)
	}
	return err
}

// article prepends an article to a JSON kind as named by encoding/json: "array", "number 1.5".
func article(kind string) string {
	switch number, ok := strings.CutPrefix(kind, "number "); {
	case ok:
		return "the number " + number
	case kind == "array" || kind == "object":
		return "an " + kind
	}
	return "a " + kind
}

// unknownType is the error for an unsupported component.
func unknownType(kind string, known ...string) error {
	return fmt.Errorf("type %q is not supported. known: %s", kind, strings.Join(known, ", "))
}

// parse parses a tokenizer.json.
func parse(blob []byte, config map[string]any) (_ *Tokenizer, err error) {
	defer func() { // the patterns of normalizer and decoder run on tokens
		if p := recover(); p != nil {
			err = patternFailure(p)
		}
	}()
	var top struct {
		Added         []AddedToken    `json:"added_tokens"`
		Normalizer    json.RawMessage `json:"normalizer"`
		PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
		PostProcessor json.RawMessage `json:"post_processor"`
		Decoder       json.RawMessage `json:"decoder"`
		Model         json.RawMessage `json:"model"`
	}
	if err := decode(blob, &top); err != nil {
		return nil, err
	}
	if absent(top.Model) {
		return nil, fmt.Errorf("no model section")
	}
	t := &Tokenizer{added: top.Added, parts: parts{top.Normalizer, top.PreTokenizer, top.PostProcessor, top.Decoder, config}}
	if err := t.readModel(top.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.addConfigured(); err != nil {
		return nil, err
	}
	if err := t.readParts(); err != nil {
		return nil, err
	}
	t.finish()
	t.templateOfConfig()
	return t, nil
}

// modelType returns the type of a model section; the oldest files omit it.
func modelType(raw json.RawMessage) (string, error) {
	var kind struct {
		Type   string          `json:"type"`
		Merges json.RawMessage `json:"merges"`
		Vocab  json.RawMessage `json:"vocab"`
		Prefix json.RawMessage `json:"continuing_subword_prefix"`
	}
	if err := decode(raw, &kind); err != nil {
		return "", err
	}
	switch {
	case kind.Type != "":
		return kind.Type, nil
	case kind.Merges != nil:
		return "BPE", nil
	case bytes.HasPrefix(kind.Vocab, []byte("[")):
		return "Unigram", nil
	case kind.Prefix != nil:
		return "WordPiece", nil
	}
	return "WordLevel", nil
}

// readModel reads the model and its vocabulary.
func (t *Tokenizer) readModel(raw json.RawMessage) error {
	kind, err := modelType(raw)
	if err != nil {
		return err
	}
	switch kind {
	case "BPE":
		var f bpeJSON
		if err := decode(raw, &f); err != nil {
			return err
		}
		return t.setBPE(&f)
	case "WordPiece", "WordLevel":
		var f wordsJSON
		if err := decode(raw, &f); err != nil {
			return err
		}
		if err := t.setVocab(f.Vocab); err != nil {
			return err
		}
		if kind == "WordPiece" {
			t.model, err = newWordPiece(&f)
		} else {
			t.model, err = newWordLevel(&f)
		}
		return err
	case "Unigram":
		var f unigramJSON
		if err := decode(raw, &f); err != nil {
			return err
		}
		return t.setUnigram(&f)
	}
	return unknownType(kind, "BPE", "WordPiece", "WordLevel", "Unigram")
}
