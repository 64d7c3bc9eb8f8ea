package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// smallTokenizers returns the tokenizers of testdata/models.jsonl.
func smallTokenizers(t testing.TB) (blobs [][]byte, names []string) {
	t.Helper()
	lines, err := os.ReadFile(filepath.Join("testdata", "models.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		var v struct {
			Name      string
			Tokenizer json.RawMessage
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		blobs, names = append(blobs, v.Tokenizer), append(names, v.Name)
	}
	return blobs, names
}

// exercise encodes and decodes a text and checks properties of every tokenizer.
func exercise(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	for _, o := range []Options{{}, {AddSpecialTokens: true}, {SplitSpecialTokens: true}} {
		ids := tok.Encode(text, o)
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("%q: id %d of %d", text, id, tok.VocabSize())
			}
		}
		var b strings.Builder
		s := tok.DecodeStream(false)
		for _, id := range ids {
			b.WriteString(s.Next(id))
		}
		b.WriteString(s.Close())
		if want := tok.Decode(ids); b.String() != want {
			t.Fatalf("%q: streamed %q, decoded %q", text, b.String(), want)
		}
	}
	tok.EncodePair(text, "b", Options{AddSpecialTokens: true})
}

const fuzzText = "Hello, ab  é\n\xff 12 <s>the thing你\u0301\u200d 👍🏽 \u2581a"

func FuzzLoad(f *testing.F) {
	f.Add([]byte(tiny(f, nil)))
	f.Add([]byte(tiny(f, map[string]string{"model": `{"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "unk_token": "a"}`})))
	f.Add([]byte(`{"model": {"type": "BPE", "vocab": {"": 0}}, "pre_tokenizer": {"type": "ByteLevel"}}`))
	f.Add([]byte(`{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["", 0], ["a", -1e308]]}, "decoder": {"type": "Strip", "content": "a", "start": 9}}`))
	small, _ := smallTokenizers(f)
	for _, blob := range small {
		f.Add(blob)
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		if bytes.Contains(blob, []byte("Regex")) {
			t.Skip("an expression may take seconds by its nature")
		}
		tok, err := parse(blob, nil)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of two lines: %v", err)
			}
			return
		}
		exercise(t, tok, fuzzText)
		again, err := tok.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again, nil); err != nil {
			t.Fatalf("a saved tokenizer does not load: %v", err)
		}
	})
}

func FuzzSentencePiece(f *testing.F) {
	for _, name := range []string{"uni.model", "bpe.model", "suffix.model"} {
		blob, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(blob)
	}
	f.Add([]byte("\n\x05\n\x01a\x15\xff\xff\x7f\x7f"))
	f.Add([]byte("\n\x07\n\x05<unk>\x18\x02\x1a\x06\x12\x04\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		tok, err := fromSentencePiece(blob, map[string]any{"legacy": len(blob)%2 == 0})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of two lines: %v", err)
			}
			return
		}
		exercise(t, tok, fuzzText)
	})
}

func FuzzVocab(f *testing.F) {
	f.Add([]byte("[UNK]\n[CLS]\n[SEP]\na\n##b\n\nab\r\n"), []byte(`{"a": 0, "b": 1, "ab": 2}`), "#version: 0.2\na b\n", []byte(`{"do_lower_case": false}`))
	f.Add([]byte("\xff"), []byte(`{"a": 5000000000}`), "a b c", []byte(`null`))
	f.Add([]byte(""), []byte(`{"": -1}`), "", []byte(`{"added_tokens_decoder": {"7": {"content": "x"}, "y": 3}, "added_tokens.json": {"q": 1.5}}`))
	f.Fuzz(func(t *testing.T, lines, vocab []byte, merges string, config []byte) {
		var c map[string]any
		if json.Unmarshal(config, &c) != nil {
			return
		}
		if tok, err := fromVocabTxt(lines, c); err == nil {
			exercise(t, tok, fuzzText)
		}
		var v map[string]int32
		if decode(vocab, &v) != nil {
			return
		}
		if tok, err := fromVocab(v, merges, c); err == nil {
			exercise(t, tok, fuzzText)
		}
	})
}

func FuzzOniguruma(f *testing.F) {
	for _, expr := range []string{`([a-z]+)*Q`, patternGPT2, patternLlama3, `[^\W\d_]++|[\S-]`, `[]a]`, `[^`, `\`, `(?<a>x)\k<a>`, `a{1,2}+`} {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		re, err := newRegex(expr)
		if err != nil {
			return
		}
		newRegex("(?:" + expr + ")")
		re.re.MatchTimeout = 20 * time.Millisecond
		defer func() {
			if p := recover(); p != nil {
				_ = patternFailure(p)
			}
		}()
		re.each(fuzzText, func(int, int) {})
	})
}

func FuzzEncode(f *testing.F) {
	bytesOnly, err := parse([]byte(tiny(f, nil)), nil)
	if err != nil {
		f.Fatal(err)
	}
	var small []*Tokenizer
	blobs, names := smallTokenizers(f)
	llama := slices.Index(names, "llama")
	for _, blob := range blobs {
		tok, err := parse(blob, nil)
		if err != nil {
			f.Fatal(err)
		}
		small = append(small, tok)
	}
	for _, name := range []string{"uni.model", "bpe.model", "suffix.model"} {
		tok, err := Load(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		small = append(small, tok)
	}
	f.Add("abcab \xff\xc3 <|end_of_text|> don't 12 \r\n\n x")
	f.Add(strings.Repeat("ab", 300))
	f.Add(fuzzText)
	f.Add("a" + strings.Repeat("\u0301", 40) + "\u09fe\u0327 ① ﬁ \u1100\u1161 İ")
	f.Fuzz(func(t *testing.T, text string) {
		for _, o := range []Options{{}, {SplitSpecialTokens: true}} {
			if got := bytesOnly.Decode(bytesOnly.Encode(text, o)); got != text {
				t.Fatalf("%q came back as %q", text, got)
			}
		}
		for _, s := range []splitter{gpt2Split{}, llama3Split{3}, llama3Split{1}, digitSplit{true}} {
			if got := strings.Join(pieces(s, text), ""); got != text {
				t.Fatalf("%T: %q was split into %q", s, text, got)
			}
		}
		for _, tok := range small {
			exercise(t, tok, text)
			cutsAreSilent(t, tok, text)
		}
		// With byte tokens, bytes that are not UTF-8 round-trip.
		tok := small[llama]
		if got, want := tok.Decode(tok.Encode(text, Options{SplitSpecialTokens: true})), strings.ReplaceAll(text, spSpace, " "); got != want {
			t.Fatalf("%q came back as %q", want, got)
		}
	})
}

// cutsAreSilent checks that cutSplit does not change ids.
func cutsAreSilent(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	b, ok := tok.model.(*runeBPE)
	if !ok || len(tok.splits) == 0 {
		return
	}
	cut, ok := tok.splits[len(tok.splits)-1].(*cutSplit)
	if !ok {
		return
	}
	var s scratch
	text = strings.ReplaceAll(text, " ", spSpace)
	whole := b.encode(nil, text, &s)
	var parts []int32
	cut.split(text, true, func(p string, _ bool) { parts = b.encode(parts, p, &s) })
	if !slices.Equal(whole, parts) {
		t.Fatalf("%q: %v, and cut %v", text, whole, parts)
	}
}

func FuzzNormalForms(f *testing.F) {
	f.Add("e\u0301\u0327 \u1100\u1161\u11a8 ﬁ ㋿")
	f.Add("a" + strings.Repeat("\u0301\u0327", 40))
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []struct{ n normalizer }{{form(0)}, {form(1)}, {form(2)}, {form(3)}} {
			once := c.n(text)
			if utf8.ValidString(text) && !utf8.ValidString(once) {
				t.Fatalf("%q became %q", text, once)
			}
			if twice := c.n(once); twice != once {
				t.Fatalf("%q became %q, then %q", text, once, twice)
			}
		}
		for _, is := range []bool{false, true} {
			b := bertNormalizer{clean: is, chinese: !is, accents: is, lowercase: true}
			b.normalize(text)
		}
		for s := text; s != ""; {
			n := graphemeLen(s)
			if n <= 0 || n > len(s) {
				t.Fatalf("a cluster of %d bytes in %q", n, s)
			}
			s = s[n:]
		}
	})
}
