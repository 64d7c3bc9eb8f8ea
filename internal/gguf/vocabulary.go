package gguf

import (
	"fmt"

	"trireme/fault"
	"trireme/tokenizer"
)

// patterns names the patterns of tokenizers as llama.cpp does.
var patterns = map[string]string{"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "": "default"}

// vocabulary returns the metadata of a tokenizer for a model of rows tokens.
func vocabulary(t *tokenizer.Tokenizer, rows int, eos int32) (kvs []KV, notes []string, err error) {
	v, err := t.Vocabulary()
	if err != nil {
		return nil, nil, fmt.Errorf("gguf: llama.cpp has no such tokenizer: %w", err)
	}
	if len(v.Tokens) > rows {
		return nil, nil, fault.Try(fmt.Errorf("gguf: the tokenizer has %d tokens, but the model's vocabulary only %d", len(v.Tokens), rows), "the model's tokenizer")
	}
	if !v.Pieces && v.Pattern == "" {
		return nil, nil, fmt.Errorf("gguf: llama.cpp has no byte-level BPE that does not split text")
	}
	if !v.Pieces && v.SpacePrefix {
		return nil, nil, fmt.Errorf("gguf: llama.cpp adds no space before a text for byte-level BPE")
	}
	if v.Normalizes {
		notes = append(notes, "llama.cpp does not normalize text: text that the tokenizer's normalizer changes has other tokens")
	}
	tokens, kinds := make([]string, rows), make([]int32, rows)
	for id := range rows {
		tokens[id], kinds[id] = fmt.Sprintf("[PAD%d]", id), int32(tokenizer.UnusedToken)
		if id < len(v.Tokens) && v.Tokens[id] != "" {
			tokens[id], kinds[id] = v.Tokens[id], int32(v.Kinds[id])
		}
	}
	add := func(key string, value any) { kvs = append(kvs, KV{"tokenizer." + key, value}) }
	if v.Pieces {
		add("ggml.model", "llama")
		add("ggml.pre", "default")
	} else {
		add("ggml.model", "gpt2")
		add("ggml.pre", patterns[v.Pattern])
	}
	add("ggml.tokens", tokens)
	add("ggml.token_type", kinds)
	if v.Pieces {
		add("ggml.scores", append(v.Scores, make([]float32, rows-len(v.Scores))...))
		add("ggml.add_space_prefix", v.SpacePrefix)
	} else {
		add("ggml.merges", v.Merges)
	}
	if t.EOS() >= 0 {
		eos = t.EOS()
	}
	for _, special := range []struct {
		key string
		id  int32
	}{{"bos", t.BOS()}, {"eos", eos}, {"unknown", t.UNK()}, {"padding", t.PAD()}} {
		if special.id >= 0 && int(special.id) < rows {
			add("ggml."+special.key+"_token_id", uint32(special.id))
		}
	}
	add("ggml.add_bos_token", v.AddBOS)
	add("ggml.add_eos_token", v.AddEOS)
	if text := t.ChatTemplate(); text != "" {
		add("chat_template", text)
	}
	return kvs, notes, nil
}
