package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tiny is a tokenizer.json with every byte, two merges and the given sections.
func tiny(t testing.TB, change map[string]string) string {
	t.Helper()
	vocab := map[string]int{}
	for i, r := range byteRunes {
		vocab[string(r)] = i
	}
	vocab["ab"], vocab["abc"] = 256, 257
	blob, err := json.Marshal(vocab)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{
		"added_tokens":   `[{"id": 258, "content": "<|begin_of_text|>", "special": true}, {"id": 259, "content": "<|end_of_text|>", "special": true}]`,
		"normalizer":     `null`,
		"pre_tokenizer":  byteLevelJSON,
		"post_processor": `null`,
		"decoder":        byteLevelJSON,
		"model":          `{"type": "BPE", "vocab": VOCAB, "merges": ["a b", "ab c"]}`,
	}
	for k, v := range change {
		sections[k] = v
	}
	var list []string
	for k, v := range sections {
		list = append(list, `"`+k+`": `+strings.ReplaceAll(v, "VOCAB", string(blob)))
	}
	return "{" + strings.Join(list, ",") + "}"
}

func parseTiny(t testing.TB, change map[string]string) *Tokenizer {
	t.Helper()
	tok, err := parse([]byte(tiny(t, change)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestSectionsOfTokenizerJSON(t *testing.T) {
	llama3, err := json.Marshal(patternLlama3)
	if err != nil {
		t.Fatal(err)
	}
	const llama3Split = `{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": false},
		{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}`
	const template = `{"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
		"single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
		"special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [258], "tokens": ["<|begin_of_text|>"]}}}]}`
	for _, c := range []struct {
		name   string
		change map[string]string
		text   string
		want   []int32
	}{
		{"plain", nil, "abc d", []int32{257, ' ', 'd'}},
		{"merges as pairs", map[string]string{"model": `{"vocab": VOCAB, "merges": [["a", "b"], ["ab", "c"]]}`}, "abcab", []int32{257, 256}},
		{"ignore_merges", map[string]string{"model": `{"type": "BPE", "ignore_merges": true, "vocab": VOCAB, "merges": []}`}, "abc abcd", []int32{257, ' ', 'a', 'b', 'c', 'd'}},
		{"llama 3", map[string]string{"pre_tokenizer": strings.ReplaceAll(llama3Split, "PATTERN", string(llama3)), "post_processor": template}, "ab", []int32{258, 256}},
		{"prefix space", map[string]string{"pre_tokenizer": `{"type": "ByteLevel", "add_prefix_space": true}`}, "ab", []int32{' ', 256}},
		{"digits", map[string]string{"pre_tokenizer": `{"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, ` + byteLevelJSON + `]}`,
			"model": `{"type": "BPE", "vocab": VOCAB, "merges": ["a b"]}`}, "ab12", []int32{256, '1', '2'}},
		{"NFC", map[string]string{"normalizer": `{"type": "Sequence", "normalizers": [{"type": "NFC"}]}`}, "e\u0301", []int32{0xc3, 0xa9}},
		{"strip", map[string]string{"added_tokens": `[{"id": 258, "content": "<m>", "lstrip": true, "rstrip": true}]`}, "a <m> b", []int32{'a', 258, 'b'}},
		{"single word", map[string]string{"added_tokens": `[{"id": 258, "content": "ab", "single_word": true}]`}, "xab ab.", []int32{'x', 256, ' ', 258, '.'}},
		{"longest", map[string]string{"added_tokens": `[{"id": 258, "content": "<x"}, {"id": 259, "content": "<x>"}]`}, "<x><x", []int32{259, 258}},
		{"normalized", map[string]string{"normalizer": `{"type": "NFC"}`, "added_tokens": `[{"id": 258, "content": "é", "normalized": true}]`}, "ae\u0301", []int32{'a', 258}},
	} {
		tok := parseTiny(t, c.change)
		if got := tok.Encode(c.text, Options{AddSpecialTokens: true}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	tok := parseTiny(t, nil)
	if tok.BOS() != 258 || tok.EOS() != 259 || tok.PAD() != -1 || !tok.IsSpecial(258) || tok.ID("ab") != 256 || tok.ID("zz") != -1 {
		t.Errorf("bos %d eos %d pad %d", tok.BOS(), tok.EOS(), tok.PAD())
	}
}

func TestBadPartsAreNamed(t *testing.T) {
	for _, c := range []struct {
		part, json string
		want       []string
	}{
		{"model", `{"type": "Markov"}`, []string{"model", "Markov"}},
		{"model", `null`, []string{"no model"}},
		{"model", `{"type": "BPE", "vocab": {}, "merges": []}`, []string{"vocabulary is empty"}},
		{"model", `{"type": "BPE", "vocab": VOCAB, "merges": ["a"]}`, []string{"model", "not two tokens"}},
		{"model", `{"type": "BPE", "vocab": VOCAB, "merges": [["a"]]}`, []string{"merge of 1"}},
		{"model", `{"type": "BPE", "vocab": VOCAB, "merges": ["a zz"]}`, []string{"merge 0", "zz"}},
		{"model", `{"type": "BPE", "vocab": VOCAB, "merges": ["b a"]}`, []string{"merge 0", `"ba"`}},
		{"model", `{"type": "BPE", "continuing_subword_prefix": "##", "vocab": VOCAB, "merges": ["a b"]}`, []string{"merge 0", "##"}},
		{"model", `{"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}`, []string{"both have id"}},
		{"model", `{"type": "BPE", "vocab": {"a": 2000000000}, "merges": []}`, []string{"id 2000000000"}},
		{"model", `{"type": "BPE", "vocab": {"a": 20000000000}, "merges": []}`, []string{"model", "vocab", "number 20000000000"}},
		{"model", `{"type": "BPE", "vocab": {"a": -1}, "merges": []}`, []string{"id -1"}},
		{"model", `{"type": "BPE", "vocab": ["a"], "merges": []}`, []string{"model", "vocab", "array"}},
		{"model", `{"type": "BPE", "unk_token": "<unk>", "vocab": VOCAB, "merges": []}`, []string{"unk_token"}},
		{"model", `{"type": "WordPiece", "vocab": {"a": 0}}`, []string{"model", "[UNK]"}},
		{"model", `{"type": "WordLevel", "vocab": {"a": 0}}`, []string{"model", "<unk>"}},
		{"model", `{"type": "WordLevel", "vocab": {}}`, []string{"model", "empty"}},
		{"model", `{"type": "Unigram", "vocab": []}`, []string{"model", "empty"}},
		{"model", `{"type": "Unigram", "vocab": [["a", 0]]}`, []string{"model", "unk_id"}},
		{"model", `{"type": "Unigram", "unk_id": 7, "vocab": [["a", 0]]}`, []string{"model", "unk_id 7"}},
		{"model", `{"type": "Unigram", "unk_id": 0, "vocab": [["a"]]}`, []string{"model", "[text, score]"}},
		{"model", `{"type": "Unigram", "unk_id": 0, "vocab": [["a", "b"]]}`, []string{"model"}},
		{"added_tokens", `[{"id": -3, "content": "x"}]`, []string{"added_tokens", "-3"}},
		{"added_tokens", `[{"id": 260, "content": "x"}, {"id": 260, "content": "y"}]`, []string{"added_tokens", "both have id 260"}},
		{"added_tokens", `[{"id": 2000000000, "content": "x"}]`, []string{"added_tokens", "2000000000"}},
		{"normalizer", `{"type": "Rot13"}`, []string{"normalizer", "Rot13"}},
		{"normalizer", `{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Rot13"}]}`, []string{"normalizer", "Rot13"}},
		{"normalizer", `{"type": "Replace", "content": "x"}`, []string{"normalizer", "pattern"}},
		{"normalizer", `{"type": "Replace", "pattern": {"String": ""}, "content": "x"}`, []string{"normalizer", "pattern"}},
		{"normalizer", `{"type": "Precompiled", "precompiled_charsmap": "//8="}`, []string{"normalizer", "too few"}},
		{"normalizer", `{"type": "Precompiled", "precompiled_charsmap": "/////w=="}`, []string{"normalizer", "4294967295"}},
		{"pre_tokenizer", `{"type": "Pig"}`, []string{"pre_tokenizer", "Pig"}},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}`, []string{"pre_tokenizer", "pattern"}},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "[[:alpha:]]"}, "behavior": "Isolated"}`, []string{"pre_tokenizer", "[ within []"}},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "[a&&b]"}, "behavior": "Isolated"}`, []string{"pre_tokenizer", "&&"}},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "a{1,3}+"}, "behavior": "Isolated"}`, []string{"pre_tokenizer", "{}"}},
		{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Sideways"}`, []string{"Sideways"}},
		{"pre_tokenizer", `{"type": "Split", "pattern": {}, "behavior": "Isolated"}`, []string{"Split", "pattern"}},
		{"pre_tokenizer", `{"type": "Metaspace", "replacement": "xx"}`, []string{"Metaspace", "xx"}},
		{"pre_tokenizer", `{"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}`, []string{"prepend_scheme", "last"}},
		{"pre_tokenizer", `{"type": "CharDelimiterSplit", "delimiter": ""}`, []string{"CharDelimiterSplit"}},
		{"post_processor", `{"type": "Envelope"}`, []string{"post_processor", "Envelope"}},
		{"post_processor", `{"type": "BertProcessing"}`, []string{"post_processor", "cls"}},
		{"post_processor", `{"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 999]}`, []string{"post_processor", "999"}},
		{"post_processor", `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]}`, []string{"post_processor", "<s>"}},
		{"post_processor", `{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "C"}}]}`, []string{"post_processor", "neither"}},
		{"decoder", `{"type": "Enigma"}`, []string{"decoder", "Enigma"}},
		{"decoder", `{"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteLevel"}]}`, []string{"decoder", "ByteLevel after Fuse"}},
		{"decoder", `{"type": "Strip", "content": "ab"}`, []string{"decoder", "Strip"}},
	} {
		_, err := parse([]byte(tiny(t, map[string]string{c.part: c.json})), nil)
		if err == nil {
			t.Errorf("%s %s: no error", c.part, c.json)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q lacks %q", c.json, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: error %q", c.json, err)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want ...string) {
		t.Helper()
		_, err := Load(dir)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("error %v lacks %q", err, w)
			}
		}
	}
	expect(dir, "none of tokenizer.json, tokenizer.model")
	put("vocab.json", `{"a": 0, "b": 1, "ab": 2}`)
	expect("merges.txt")
	put("merges.txt", "#version: 0.2\na b c\n")
	expect("merges.txt", "line 2")
	put("merges.txt", "#version: 0.2\na b\n")
	tok, err := Load(dir)
	if err != nil || !slices.Equal(tok.Encode("ab", Options{}), []int32{2}) {
		t.Errorf("vocab.json and merges.txt: %v", err)
	}
	put("tokenizer_config.json", `{"tokenizer_class": "CLIPTokenizer"}`)
	expect("CLIPTokenizer")
	put("tokenizer_config.json", `{`)
	expect("tokenizer_config.json")
	put("tokenizer_config.json", `{}`)
	put("tokenizer.json", `{"model": {"type": "Markov"}}`)
	expect("tokenizer.json", "Markov")
	if _, err := Load(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing directory was loaded")
	}
}
