package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// shared returns a file outside the repository; the test is skipped if it is missing.
func shared(t testing.TB, path string) string {
	t.Helper()
	full := filepath.Join("..", "..", "shared", "data", path)
	if _, err := os.Stat(full); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is not here", full)
	}
	return full
}

// loaded caches tokenizers.
var loaded sync.Map

func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	path := shared(t, "tokenizers/"+name)
	if tok, ok := loaded.Load(name); ok {
		return tok.(*Tokenizer)
	}
	tok, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Store(name, tok)
	return tok
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestVectorsOfTransformersJS(t *testing.T) {
	for _, c := range []struct{ file, model, dir string }{
		{"gpt2.json", "Xenova/gpt2", "gpt2"},
		{"qwen2.json", "Xenova/Qwen1.5-0.5B-Chat", "qwen2.5"},
		{"bert.json", "Xenova/bert-base-uncased", "bert-base-uncased"},
	} {
		tok := load(t, c.dir)
		var models map[string]map[string]struct {
			Text    string
			Pair    string `json:"text_pair"`
			IDs     []int32
			Decoded string
		}
		if err := json.Unmarshal([]byte(readFile(t, shared(t, "vectors/transformers.js/"+c.file))), &models); err != nil {
			t.Fatal(err)
		}
		if len(models[c.model]) < 15 {
			t.Fatalf("%s: %d cases", c.model, len(models[c.model]))
		}
		for name, v := range models[c.model] {
			got := tok.Encode(v.Text, Options{AddSpecialTokens: true})
			if v.Pair != "" {
				got, _ = tok.EncodePair(v.Text, v.Pair, Options{AddSpecialTokens: true})
			}
			if !slices.Equal(got, v.IDs) {
				t.Errorf("%s %s %q: %v, want %v", c.model, name, v.Text, got, v.IDs)
			}
			// The vectors' library cleans up decoded text for most models.
			text := strings.ToValidUTF8(tok.Decode(v.IDs), "\ufffd")
			clean := text
			for _, c := range cleanups {
				clean = strings.ReplaceAll(clean, c[0], c[1])
			}
			if text != v.Decoded && clean != v.Decoded {
				t.Errorf("%s %s: decoded %q, want %q", c.model, name, text, v.Decoded)
			}
		}
	}
}

func TestVectorsOfLlamaCpp(t *testing.T) {
	tok := load(t, "gpt2")
	texts := strings.Split(readFile(t, shared(t, "vectors/llama.cpp/ggml-vocab-gpt-2.gguf.inp")), "\n__ggml_vocab_test__\n")
	lines := strings.Split(readFile(t, shared(t, "vectors/llama.cpp/ggml-vocab-gpt-2.gguf.out")), "\n")
	for i, text := range texts {
		var want []int32
		for _, f := range strings.Fields(lines[i]) {
			id, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, int32(id))
		}
		if got := tok.Encode(text, Options{}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// gpt2 exists as tokenizer.json and as encoder.json with vocab.bpe; both give the same tokenizer.
func TestBothFormatsOfGPT2Agree(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"encoder.json", "vocab.bpe"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(readFile(t, shared(t, "tokenizers/gpt2/"+name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := load(t, "gpt2")
	text := readFile(t, shared(t, "corpora/wiki_demo.txt"))[:200_000] + "<|endoftext|>x"
	if !slices.Equal(a.Encode(text, Options{}), b.Encode(text, Options{})) {
		t.Error("the ids differ")
	}
	if a.VocabSize() != 50257 || b.VocabSize() != 50257 || a.EOS() != 50256 || b.EOS() != 50256 || b.BOS() != 50256 {
		t.Errorf("vocabularies %d, %d; EOS %d, %d", a.VocabSize(), b.VocabSize(), a.EOS(), b.EOS())
	}
}

// Decode returns the normalized text or, for decoders of words, its words.
func TestRoundTripOfCorpora(t *testing.T) {
	for _, name := range []string{"gpt2", "gpt-neox-20b", "qwen2.5", "mistral", "bert-base-uncased"} {
		tok := load(t, name)
		for _, corpus := range corpora {
			text := readFile(t, shared(t, "corpora/"+corpus))
			want := text
			if tok.normal != nil && name != "mistral" {
				want = tok.normal(text)
			}
			ids := tok.Encode(text, Options{SplitSpecialTokens: true})
			got := tok.Decode(ids)
			if name == "bert-base-uncased" {
				got, want = words(got), knownWords(t, tok, want)
			}
			if got != want {
				t.Errorf("%s: %s does not come back", name, corpus)
			}
			if slices.Max(ids) >= int32(tok.VocabSize()) {
				t.Errorf("%s: an id beyond the vocabulary", name)
			}
		}
	}
}

var corpora = []string{
	"tinyshakespeare.txt", "wiki_demo.txt", "wikitext2_tok_valid.txt", "c4_demo.jsonl", "instruct_alpaca_format.jsonl",
	"sentiment_train.jsonl", "wikisql/train.jsonl", "wikisql/valid.jsonl", "wikisql/test.jsonl",
}

// words returns a text without white space.
func words(s string) string { return strings.Join(strings.Fields(s), "") }

// knownWords removes white space, and replaces the rare words that the vocabulary cannot spell by
// [UNK].
func knownWords(t *testing.T, tok *Tokenizer, text string) string {
	var b strings.Builder
	all, unknown := 0, 0
	unk := tok.ID("[UNK]")
	for _, w := range pieces(bertSplit{}, text) {
		all++
		if ids := tok.model.encode(nil, w, nil); slices.Equal(ids, []int32{unk}) {
			unknown++
			w = "[UNK]"
		}
		b.WriteString(w)
	}
	if unknown*200 > all {
		t.Errorf("%d of %d words are unknown", unknown, all)
	}
	return b.String()
}

// Both files of Mistral give the same tokenizer.
func TestBothFormatsOfMistralAgree(t *testing.T) {
	a := load(t, "mistral")
	dir := t.TempDir()
	for _, name := range []string{fileModel, fileConfig} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(readFile(t, shared(t, "tokenizers/mistral/"+name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.VocabSize() != b.VocabSize() || a.BOS() != b.BOS() || a.EOS() != b.EOS() || a.PAD() != b.PAD() || a.ChatTemplate() == "" || a.ChatTemplate() != b.ChatTemplate() {
		t.Errorf("vocabularies %d, %d, ends %d %d %d, %d %d %d", a.VocabSize(), b.VocabSize(), a.BOS(), a.EOS(), a.PAD(), b.BOS(), b.EOS(), b.PAD())
	}
	texts := []string{"", " ", "  a", "a</s>b <s>", "<0x0A>\n\x00", "\xff\xfe é", "▁▁ ▁", strings.Repeat("ab ", 200), strings.Repeat("x", 500)}
	for _, corpus := range corpora {
		text := readFile(t, shared(t, "corpora/"+corpus))
		texts = append(append(texts, text), strings.Split(text, "\n")...)
	}
	for _, text := range texts {
		for _, o := range []Options{{}, {AddSpecialTokens: true}, {SplitSpecialTokens: true}} {
			x, y := a.Encode(text, o), b.Encode(text, o)
			if !slices.Equal(x, y) {
				t.Fatalf("%.80q: %v and %v", text, x, y)
			}
			if !o.AddSpecialTokens && a.Decode(x) != b.Decode(y) {
				t.Fatalf("%.80q: decoded as %.80q and %.80q", text, a.Decode(x), b.Decode(y))
			}
		}
	}
}

// nanoGPT's README gives these counts for GPT-2's tokenizer; train and validation are encoded
// separately, split at nine tenths of the characters.
func TestTinyShakespeareTokenCount(t *testing.T) {
	tok := load(t, "gpt2")
	text := readFile(t, shared(t, "corpora/tinyshakespeare.txt"))
	cut := len(text) * 9 / 10
	train, val := tok.Encode(text[:cut], Options{}), tok.Encode(text[cut:], Options{})
	if len(train) != 301966 || len(val) != 36059 {
		t.Errorf("%d and %d tokens, want 301966 and 36059", len(train), len(val))
	}
}

func TestSpecialTokensInText(t *testing.T) {
	tok := load(t, "gpt2")
	const text = "a<|endoftext|>b"
	if got := tok.Encode(text, Options{}); !slices.Equal(got, []int32{64, 50256, 65}) {
		t.Errorf("special: %v", got)
	}
	got := tok.Encode(text, Options{SplitSpecialTokens: true})
	if slices.Contains(got, 50256) || tok.Decode(got) != text {
		t.Errorf("literal: %v", got)
	}
	if p := tok.DecodeSkipSpecial([]int32{64, 50256, 65, -1, 99999}); p != "ab" {
		t.Errorf("plain %q", p)
	}
}

func TestQwenFiles(t *testing.T) {
	tok := load(t, "qwen2.5")
	if tok.VocabSize() != 151665 || tok.EOS() != 151643 && tok.EOS() != 151645 || tok.BOS() != -1 || tok.PAD() != 151643 {
		t.Errorf("vocab %d eos %d bos %d pad %d", tok.VocabSize(), tok.EOS(), tok.BOS(), tok.PAD())
	}
	if got := tok.Encode("e\u0301<|im_end|>", Options{}); !slices.Equal(got, append(tok.Encode("é", Options{}), 151645)) {
		t.Errorf("NFC and <|im_end|>: %v", got)
	}
}

func TestConcurrentEncode(t *testing.T) {
	for _, name := range []string{"gpt2", "qwen2.5", "mistral", "bert-base-uncased"} {
		tok, err := Load(shared(t, "tokenizers/"+name))
		if err != nil {
			t.Fatal(err)
		}
		text := readFile(t, shared(t, "corpora/wiki_demo.txt"))[:50_000] + "é 你好"
		var got [4][]int32
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				got[i] = tok.Encode(text, Options{})
				tok.Decode(got[i])
			})
		}
		wg.Wait()
		for i := range got {
			if !slices.Equal(got[i], got[0]) {
				t.Errorf("%s: the ids differ", name)
			}
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	text := readFile(t, shared(t, "corpora/wiki_demo.txt"))[:50_000] + " <|endoftext|><|im_start|>        x\n\n\n y"
	for _, name := range []string{"gpt2", "gpt-neox-20b", "qwen2.5", "torchtitan_test_tiny", "mistral", "bert-base-uncased"} {
		a := load(t, name)
		dir := filepath.Join(t.TempDir(), name)
		if err := a.Save(dir); err != nil {
			t.Fatal(err)
		}
		b, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Encode(text, Options{AddSpecialTokens: true}), b.Encode(text, Options{AddSpecialTokens: true})) {
			t.Errorf("%s: other ids after saving", name)
		}
		if a.VocabSize() != b.VocabSize() || a.EOS() != b.EOS() || a.BOS() != b.BOS() || a.PAD() != b.PAD() {
			t.Errorf("%s: other special tokens after saving", name)
		}
		x, err := a.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.MarshalJSON()
		if err != nil || !bytes.Equal(x, y) {
			t.Errorf("%s: saved again, it is another file (%v)", name, err)
		}
		if a.Digest() != b.Digest() {
			t.Errorf("%s: another digest after saving", name)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"gpt2", "gpt-neox-20b", "qwen2.5", "mistral", "bert-base-uncased"} {
		tok := load(b, name)
		for _, corpus := range []string{"tinyshakespeare.txt", "wiki_demo.txt"} {
			benchmarkEncode(b, tok, name, corpus)
		}
	}
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, name, corpus string) {
	b.Run(name+"/"+corpus, func(b *testing.B) {
		text := readFile(b, shared(b, "corpora/"+corpus))
		dst := tok.Encode(text, Options{})
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			dst = tok.Append(dst[:0], text, Options{})
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"gpt2", "qwen2.5", "mistral", "bert-base-uncased"} {
		b.Run(name, func(b *testing.B) {
			path := shared(b, "tokenizers/"+name)
			for b.Loop() {
				if _, err := Load(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
