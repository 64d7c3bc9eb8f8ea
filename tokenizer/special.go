package tokenizer

import (
	"maps"
	"strings"
)

// specialKeys are the keys of special tokens in tokenizer_config.json and chat templates.
var specialKeys = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// Default special tokens of model families, for directories that do not configure them.
var (
	bertNames = map[string]any{
		"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
	}
	robertaNames = map[string]any{
		"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>",
		"mask_token": map[string]any{"content": "<mask>", "lstrip": true},
	}
)

// withNames adds missing special tokens to a configuration.
func withNames(config, names map[string]any) map[string]any {
	all := maps.Clone(names)
	maps.Copy(all, config)
	return all
}

// SpecialTokens returns the special tokens by their names in chat templates, such as bos_token.
func (t *Tokenizer) SpecialTokens() map[string]string {
	m := map[string]string{}
	for _, key := range specialKeys {
		if token := configToken(t.parts.Config, key); token != "" {
			m[key] = token
		}
	}
	for key, id := range map[string]int32{"bos_token": t.bos, "eos_token": t.eos, "pad_token": t.pad} {
		if id >= 0 {
			m[key] = t.names[id]
		}
	}
	return m
}

// ChatTemplate returns the Jinja chat template, or "", from chat_template.jinja or
// tokenizer_config.json; if there are several, the one named default.
func (t *Tokenizer) ChatTemplate() string {
	switch v := t.parts.Config["chat_template"].(type) {
	case string:
		return v
	case []any:
		for _, one := range v {
			m, _ := one.(map[string]any)
			text, _ := m["template"].(string)
			if m["name"] == "default" {
				return text
			}
		}
	}
	return ""
}

// Default end-of-document tokens of model families, for files that do not configure them.
var (
	beginNames = []string{"<|begin_of_text|>", "<s>", "<|endoftext|>"}
	endNames   = []string{"<|endoftext|>", "<|end_of_text|>", "</s>"}
	padNames   = []string{"<|padding|>", "<|pad|>", "<pad>", "[PAD]"}
)

// setEnds finds the special tokens in tokenizer_config.json, else by their usual names among the added
// tokens.
func (t *Tokenizer) setEnds() {
	find := func(key string, names []string) int32 {
		if v, said := t.parts.Config[key]; said {
			if v == nil {
				return -1
			}
			return t.ID(configToken(t.parts.Config, key))
		}
		for _, name := range names {
			for _, a := range t.added {
				if a.Content == name {
					return a.ID
				}
			}
		}
		return -1
	}
	t.bos, t.eos, t.pad = find("bos_token", beginNames), find("eos_token", endNames), find("pad_token", padNames)
}

// templateOfConfig applies add_bos_token and add_eos_token for classes that override
// tokenizer.json's template.
func (t *Tokenizer) templateOfConfig() {
	switch class, _ := t.parts.Config["tokenizer_class"].(string); strings.TrimSuffix(class, "Fast") {
	case "LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer":
		t.template = t.ends()
	}
}

// ends returns the template of add_bos_token and add_eos_token.
func (t *Tokenizer) ends() template {
	said := func(key string, or bool) bool {
		if v, ok := t.parts.Config[key].(bool); ok {
			return v
		}
		return or
	}
	bos, eos := int32(-1), int32(-1)
	if said("add_bos_token", true) {
		bos = t.bos
	}
	if said("add_eos_token", false) {
		eos = t.eos
	}
	return endsTemplate(bos, eos)
}

// configToken returns a special token of tokenizer_config.json.
func configToken(config map[string]any, key string) string { return tokenOf(config[key]) }

// tokenOf returns the text of a token, a string or an object.
func tokenOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		s, _ := v["content"].(string)
		return s
	}
	return ""
}
