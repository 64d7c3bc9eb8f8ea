package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A stream's output equals Decode, and never splits a character.
func TestStreamIsDecode(t *testing.T) {
	for _, name := range []string{"gpt2", "qwen2.5", "mistral", "bert-base-uncased"} {
		tok := load(t, name)
		text := "naïve 你好 👨‍👩‍👧 <|endoftext|> ½\xff\xc3(\xe4\xbd" + readFile(t, shared(t, "corpora/wiki_demo.txt"))[:20_000]
		ids := tok.Encode(text, Options{})
		for _, plain := range []bool{false, true} {
			s := tok.DecodeStream(plain)
			want := tok.Decode(ids)
			if plain {
				want = tok.DecodeSkipSpecial(ids)
			}
			for range 2 {
				var got strings.Builder
				for _, id := range ids {
					got.WriteString(s.Next(id))
				}
				got.WriteString(s.Close())
				if got.String() != want {
					t.Fatalf("%s plain=%v: %.80q, want %.80q", name, plain, got.String(), want)
				}
			}
		}
		s := tok.DecodeStream(false)
		for _, id := range tok.Encode("你好 👨‍👩‍👧 ½ é", Options{}) {
			if p := s.Next(id); !utf8.ValidString(p) {
				t.Errorf("%s: a cut character %q", name, p)
			}
		}
		if p := s.Close(); p != "" {
			t.Errorf("%s: %q is left", name, p)
		}
	}
}

func TestChatTemplate(t *testing.T) {
	for _, c := range []struct{ config, file, want string }{
		{`{}`, "", ""},
		{`{"chat_template": "a"}`, "", "a"},
		{`{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}`, "", "d"},
		{`{"chat_template": [{"name": "tool_use", "template": "t"}]}`, "", ""},
		{`{"chat_template": 3}`, "", ""},
		{`{"chat_template": "a"}`, "file", "file"},
	} {
		dir := t.TempDir()
		put := map[string]string{fileJSON: tiny(t, nil), fileConfig: c.config}
		if c.file != "" {
			put[fileChatTemplate] = c.file
		}
		for name, text := range put {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tok, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.ChatTemplate(); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.config, c.file, got, c.want)
		}
	}
}

func TestSpecialTokensByName(t *testing.T) {
	config := map[string]any{}
	if err := json.Unmarshal([]byte(`{"bos_token": "<|begin_of_text|>", "unk_token": {"content": "ab"}, "pad_token": null}`), &config); err != nil {
		t.Fatal(err)
	}
	tok, err := parse([]byte(tiny(t, nil)), config)
	if err != nil {
		t.Fatal(err)
	}
	m := tok.SpecialTokens()
	if m["bos_token"] != "<|begin_of_text|>" || m["eos_token"] != "<|end_of_text|>" || m["unk_token"] != "ab" || len(m) != 3 {
		t.Errorf("%q", m)
	}
	if tok.Token(256) != "ab" || tok.Token(-1) != "" || tok.Token(1000) != "" {
		t.Error("Token")
	}
}

func TestFiles(t *testing.T) {
	for _, name := range []string{fileJSON, fileConfig, "vocab.json", "merges.txt", fileChatTemplate} {
		if !slices.Contains(Files(), name) {
			t.Errorf("%s is missing", name)
		}
	}
}
