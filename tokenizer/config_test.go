package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// loadWith loads a directory of the given files.
func loadWith(t *testing.T, files map[string]string) (*Tokenizer, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(dir)
}

// tokenizer_config.json and related files configure a sentencepiece model.
func TestConfigOfSentencePiece(t *testing.T) {
	model := readFile(t, "testdata/bpe.model")
	for _, c := range []struct {
		config string
		text   string
		want   []string
	}{
		{`{}`, "the<sep>the", []string{"<s>", "▁the", "<sep>", "t", "he"}},
		{`{}`, "the</s>the", []string{"<s>", "▁the", "</s>", "▁the"}},
		{`{"legacy": false}`, "the</s>the", []string{"<s>", "▁the", "</s>", "t", "he"}},
		{`{"legacy": false}`, "</s>the", []string{"<s>", "</s>", "t", "he"}},
		{`{"add_bos_token": false, "add_eos_token": true}`, "the", []string{"▁the", "</s>"}},
		{`{"add_prefix_space": false}`, "the", []string{"<s>", "t", "he"}},
		{`{"added_tokens_decoder": {"560": {"content": "<|im_end|>", "special": true}}}`, "the<|im_end|>", []string{"<s>", "▁the", "<|im_end|>"}},
	} {
		tok, err := loadWith(t, map[string]string{fileModel: model, fileConfig: c.config})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, id := range tok.Encode(c.text, Options{AddSpecialTokens: true}) {
			got = append(got, tok.Token(id))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %q, want %q", c.config, c.text, got, c.want)
		}
		saveAndCompare(t, tok, c.config)
	}
}

func TestConfigOfVocabAndMerges(t *testing.T) {
	base := map[string]string{
		"vocab.json":      `{"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4, "Ġ": 5, "Ġab": 6, "x": 7, "<|endoftext|>": 8}`,
		"merges.txt":      "#version: 0.2\r\na b\r\nĠ ab\r\n",
		fileAddedTokens:   `{"<m>": 9, "<n>": 10}`,
		fileSpecialTokens: `{"additional_special_tokens": ["<n>"], "eos_token": "x"}`,
	}
	for _, c := range []struct {
		config string
		text   string
		want   []int32
	}{
		{`{}`, "ab ab", []int32{4, 6}},
		{`{}`, "ab<m>x<n>", []int32{4, 9, 7, 10}},
		{`{"add_prefix_space": true}`, "ab", []int32{6}},
		{`{"tokenizer_class": "RobertaTokenizer", "cls_token": "<s>", "sep_token": "</s>"}`, "ab", []int32{0, 4, 1}},
		{`{"tokenizer_class": "Qwen2TokenizerFast"}`, "ab", []int32{4}},
	} {
		base[fileConfig] = c.config
		tok, err := loadWith(t, base)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(c.text, Options{AddSpecialTokens: true}); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %v, want %v", c.config, c.text, got, c.want)
		}
		if tok.IsSpecial(9) || !tok.IsSpecial(10) || !tok.IsSpecial(7) || tok.EOS() != 7 {
			t.Errorf("%s: the wrong tokens are special", c.config)
		}
		saveAndCompare(t, tok, c.config)
	}
	base[fileAddedTokens] = `{"<m>": 1.5}`
	if _, err := loadWith(t, base); err == nil || !strings.Contains(err.Error(), fileAddedTokens) {
		t.Errorf("an id of 1.5: %v", err)
	}
}

// Llama's classes add the special tokens of their configuration, whatever tokenizer.json has.
func TestConfigOfLlama(t *testing.T) {
	for config, want := range map[string][]int32{
		`{"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true, "add_eos_token": true}`: {258, 256, 259},
		`{"tokenizer_class": "LlamaTokenizer", "add_bos_token": false}`:                           {256},
		`{"tokenizer_class": "LlamaTokenizer"}`:                                                   {258, 256},
		`{"tokenizer_class": "LlamaTokenizer", "bos_token": null}`:                                {256},
		`{"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": true}`:                   {256},
	} {
		tok, err := loadWith(t, map[string]string{fileJSON: tiny(t, nil), fileConfig: config})
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("ab", Options{AddSpecialTokens: true}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
	}
}

func TestConfigOfVocabTxt(t *testing.T) {
	const vocab = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nhello\nHello\né\ne\n你\n好\n你好\n##e\n"
	for _, c := range []struct {
		config string
		text   string
		want   []int32
	}{
		{`{}`, "Hello é 你好 [MASK]", []int32{1, 5, 8, 9, 10, 4, 2}},
		{`{"do_lower_case": false}`, "Hello é", []int32{1, 6, 7, 2}},
		{`{"strip_accents": false}`, "Hello É", []int32{1, 5, 7, 2}},
		{`{"tokenize_chinese_chars": false}`, "你好", []int32{1, 11, 2}},
		{`null`, "ee", []int32{1, 8, 12, 2}},
	} {
		tok, err := loadWith(t, map[string]string{fileVocab: vocab, fileConfig: c.config})
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(c.text, Options{AddSpecialTokens: true}); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %v, want %v", c.config, c.text, got, c.want)
		}
		if s := tok.SpecialTokens(); s["mask_token"] != "[MASK]" || s["cls_token"] != "[CLS]" || tok.PAD() != 3 || tok.EOS() != -1 {
			t.Errorf("%s: special tokens %q, pad %d", c.config, s, tok.PAD())
		}
		saveAndCompare(t, tok, c.config)
	}
	for _, c := range []struct{ vocab, config, want string }{
		{"[UNK]\n[CLS]\n", `{}`, "[SEP]"},
		{"[CLS]\n[SEP]\n", `{}`, "[UNK]"},
		{"[UNK]\n\xff\n", `{}`, "line 2 is not UTF-8"},
		{"", `{}`, "empty"},
		{vocab, `{"tokenizer_class": "XLNetTokenizer"}`, "XLNetTokenizer"},
		{vocab, `{`, fileConfig},
	} {
		_, err := loadWith(t, map[string]string{fileVocab: c.vocab, fileConfig: c.config})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q %s: error %v lacks %q", c.vocab, c.config, err, c.want)
		}
	}
}

func TestBadSentencePieceModels(t *testing.T) {
	good := readFile(t, "testdata/uni.model")
	piece := func(fields string) string { return "\n" + string(rune(len(fields))) + fields }
	unk := piece("\n\x05<unk>\x18\x02")
	for _, c := range []struct{ blob, want string }{
		{"", "no pieces"},
		{"\x1a\x00", "no pieces"},
		{good[:len(good)/2], "truncated"},
		{"\n\xff\xff\xff\xff\x0f", "truncated"},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "not a protobuf"},
		{piece("\n\x01a"), "unknown"},
		{unk + unk, "both"},
		{unk + piece("\n\x00"), "piece 1 is empty"},
		{unk + piece("\n\x01\xff"), "piece 1 is empty or not UTF-8"},
		{unk + piece("\n\x01a\x18\x63"), "type 99"},
		{unk + piece("\n\x01a\x15\x00\x00\xc0\x7f"), "score NaN"},
		{unk + piece("\n\x01a\x18\x06"), "byte"},
		{unk + "\x12\x02\x18\x03", "model_type 3"},
		{unk + "\x1a\x06\x12\x04\xff\xff\xff\xff", "charsmap"},
	} {
		_, err := loadWith(t, map[string]string{fileModel: c.blob})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.30q: error %v lacks %q", c.blob, err, c.want)
		}
	}
}

func TestEncodePair(t *testing.T) {
	tok, err := loadWith(t, map[string]string{fileVocab: "[UNK]\n[CLS]\n[SEP]\na\nb\n"})
	if err != nil {
		t.Fatal(err)
	}
	ids, types := tok.EncodePair("a", "b b", Options{AddSpecialTokens: true})
	if !slices.Equal(ids, []int32{1, 3, 2, 4, 4, 2}) || !slices.Equal(types, []int32{0, 0, 0, 1, 1, 1}) {
		t.Errorf("%v %v", ids, types)
	}
	ids, types = tok.EncodePair("a", "b b", Options{})
	if !slices.Equal(ids, []int32{3, 4, 4}) || !slices.Equal(types, []int32{0, 1, 1}) {
		t.Errorf("without special tokens: %v %v", ids, types)
	}
}

// golang.org/x/text/unicode/norm splits runs of more than thirty marks.
func TestManyMarks(t *testing.T) {
	acutes := strings.Repeat("\u0301", 40)
	if got := form(0)("a" + acutes + "b"); got != "á"+acutes[2:]+"b" {
		t.Errorf("%q", got)
	}
	below := strings.Repeat("\u0301\u0327", 40) // of two classes, the lower goes first
	if got := form(1)("a" + below); got != "a"+strings.Repeat("\u0327", 40)+acutes {
		t.Errorf("%q", got)
	}
}

// Tokens only in tokenizer_config.json are added, like in transformers: a chat template then writes
// one token, not text.
func TestConfigAddsToTokenizerJSON(t *testing.T) {
	for _, c := range []struct {
		config string
		text   string
		want   []int32
	}{
		{`{}`, "a<|x|>", []int32{97, 60, 124, 120, 124, 62}},
		{`{"added_tokens_decoder": {"260": {"content": "<|x|>", "special": true}}}`, "a<|x|>", []int32{97, 260}},
		{`{"added_tokens_decoder": {"262": {"content": "<|x|>"}, "261": {"content": "<|y|>"}}}`, "<|y|><|x|>", []int32{261, 262}},
		{`{"added_tokens_decoder": {"258": {"content": "<|begin_of_text|>"}, "97": {"content": "abc"}}}`, "<|begin_of_text|>abc", []int32{258, 257}}, // in the vocabulary
		{`{"added_tokens_decoder": {"97": {"content": "<|x|>"}, "258": {"content": "<|y|>"}}}`, "<|x|><|y|>a", []int32{260, 261, 97}},                // ids already taken
		{`{"eos_token": "ab", "pad_token": "<|pad|>"}`, "abc<|pad|>", []int32{256, 99, 60, 124, 112, 97, 100, 124, 62}},
	} {
		tok, err := loadWith(t, map[string]string{fileJSON: tiny(t, nil), fileConfig: c.config})
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(c.text, Options{}); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %v, want %v", c.config, c.text, got, c.want)
		}
		saveAndCompare(t, tok, c.config)
	}
	_, err := loadWith(t, map[string]string{fileJSON: tiny(t, nil), fileConfig: `{"added_tokens_decoder": {"2000000000": {"content": "<|x|>"}}}`})
	if err == nil || !strings.Contains(err.Error(), `"<|x|>" has id 2000000000`) {
		t.Errorf("an id without bound: %v", err)
	}
}
