package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/tokenizer"
)

// chatTokenizer has a token per byte and the given special tokens: bos first, eos second. template
// is its chat template.
func chatTokenizer(t testing.TB, template string, special ...string) *tokenizer.Tokenizer {
	t.Helper()
	dir := t.TempDir()
	if err := bytesTokenizer(t).Save(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tokenizer.json")
	blob, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(blob, &m); err != nil {
		t.Fatal(err)
	}
	added := m["added_tokens"].([]any)
	for i, s := range special {
		added = append(added, map[string]any{
			"id": 257 + i, "content": s, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		})
	}
	m["added_tokens"] = added
	config := map[string]any{"tokenizer_class": "GPT2Tokenizer"}
	if len(special) > 1 {
		config["bos_token"], config["eos_token"] = special[0], special[1]
	}
	if template != "" {
		config["chat_template"] = template
	}
	for name, v := range map[string]any{"tokenizer.json": m, "tokenizer_config.json": config} {
		if blob, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), blob, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// marked decodes rows with « and » around label tokens.
func marked(t testing.TB, d Dataset, tok *tokenizer.Tokenizer) (out []string) {
	t.Helper()
	var r Row
	for i := range d.Len() {
		if err := d.Row(i, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Labels) != len(r.InputIDs) {
			t.Fatalf("row %d: %d labels of %d tokens", i, len(r.Labels), len(r.InputIDs))
		}
		var b strings.Builder
		on := false
		for k, label := range r.Labels {
			if label != Ignored && label != r.InputIDs[k] {
				t.Fatalf("row %d: label %d of token %d", i, label, r.InputIDs[k])
			}
			if labeled := label != Ignored; labeled != on {
				b.WriteString(map[bool]string{true: "«", false: "»"}[labeled])
				on = labeled
			}
			b.WriteString(tok.Decode(r.InputIDs[k : k+1]))
		}
		if on {
			b.WriteString("»")
		}
		out = append(out, b.String())
	}
	return out
}

// rowsConfig reads a file of rows.
func rowsConfig(t testing.TB, lines ...string) Config {
	c := DefaultConfig()
	c.Path, c.CacheDir = write(t, "rows.jsonl", strings.Join(lines, "\n")), t.TempDir()
	return c
}

func TestFormats(t *testing.T) {
	tok := chatTokenizer(t, chatML, "<s>", "</s>", "<|im_start|>", "<|im_end|>")
	const chatted = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Yo<|im_end|>»\n"
	for _, c := range []struct {
		row, format, want string
		change            func(*Config)
	}{
		{`{"text": "abc"}`, FormatText, "«abc</s>»", nil},
		{`{"text": "abc", "label": 3}`, FormatText, "«abc</s>»", nil},
		{`{"body": "abc"}`, FormatText, "«abc</s>»", func(c *Config) { c.TextField = "body" }},
		{`{"prompt": "a ", "completion": "b"}`, FormatPromptCompletion, "a «b</s>»", nil},
		{`{"prompt": "a ", "completion": "b</s>"}`, FormatPromptCompletion, "a «b</s>»", nil},
		{`{"question": "a", "answer": " b", "id": 1}`, FormatPromptCompletion, "a« b</s>»", nil},
		{`{"input": "a", "output": " b"}`, FormatPromptCompletion, "a« b</s>»", nil},
		{`{"q": "a", "a": " b"}`, FormatPromptCompletion, "a« b</s>»", func(c *Config) { c.Columns = map[string]string{"prompt": "q", "completion": "a"} }},
		{`{"prompt": "a ", "completion": "b"}`, FormatPromptCompletion, "«a b</s>»", func(c *Config) { c.TrainOn = trainAll }},
		{
			`{"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "Yo"}]}`, FormatPromptCompletion, chatted, nil,
		},
		{
			`{"instruction": "I", "input": "", "output": "O"}`, FormatAlpaca,
			alpacaPlain + "\n\n### Instruction:\nI\n\n### Response:«O</s>»", nil,
		},
		{
			`{"instruction": "I", "context": "J", "response": "O"}`, FormatAlpaca,
			alpacaInput + "\n\n### Instruction:\nI\n\n### Input:\nJ\n\n### Response:«O</s>»", nil,
		},
		{
			`{"instruction": "I", "output": "O", "system": "S", "history": [["q", "r"]]}`, FormatAlpaca,
			"S\n\n### Instruction:\nq\n\n### Response:«r</s>»\n\n### Instruction:\nI\n\n### Response:«O</s>»", nil,
		},
		{`{"segments": [{"text": "a", "label": false}, {"text": "b", "label": true}, {"text": "c", "label": false}, {"text": "d", "label": true}]}`, FormatSegments, "a«b»c«d</s>»", nil},
		{`{"segments": [{"text": "x", "label": false}, {"text": "a", "label": true}, {"text": "b", "label": false}]}`, FormatSegments, "x«a»b</s>", nil},
		{`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}`, FormatChat, chatted, nil},
		{`{"conversations": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}`, FormatChat, chatted, nil},
		{`{"dialog": [{"who": "user", "said": "Hi"}, {"who": "assistant", "said": "Yo"}]}`, FormatChat, chatted, func(c *Config) {
			c.Columns = map[string]string{"messages": "dialog", "role": "who", "content": "said"}
		}},
		{`{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}], "id": "x"}`, FormatShareGPT, chatted, nil},
		{
			`{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}], "system": "S"}`, FormatShareGPT,
			"<|im_start|>system\nS<|im_end|>\n" + chatted, nil,
		},
		{
			`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}`, FormatChat,
			"<|im_start|>user\n«Hi<|im_end|>»\n<|im_start|>assistant\n«Yo<|im_end|>»\n", func(c *Config) { c.RolesToTrain = []string{"user", "assistant"} },
		},
		{
			`{"messages": [{"role": "assistant", "content": "A", "weight": 0}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo", "weight": 1}]}`, FormatChat,
			"<|im_start|>assistant\nA<|im_end|>\n" + chatted, nil,
		},
		{`{"prompt": "Hi", "completion": "Yo"}`, FormatPromptCompletion, chatted, func(c *Config) { c.ChatTemplate = chatOfTokenizer }},
		{
			`{"instruction": "Hi", "input": "J", "output": "Yo", "system": "S", "history": [["q", "r"]]}`, FormatAlpaca,
			"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n«r<|im_end|>»\n" + strings.Replace(chatted, "Hi", "Hi\nJ", 1),
			func(c *Config) { c.ChatTemplate = chatMLName },
		},
		{`{"input_ids": [1, 2], "labels": [1, -100]}`, FormatInputIDs, "«!»\"", nil},
	} {
		cfg := rowsConfig(t, c.row)
		cfg.Packing = new(false)
		if c.change != nil {
			c.change(&cfg)
		}
		s := open(t, cfg, tok)
		if got := marked(t, s.Train, tok); s.Format != c.format || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s is %s\n got %q\nwant %q", c.row, s.Format, got, c.want)
		}
		if cfg.Format = c.format; c.format == FormatText {
			continue
		}
		if got := marked(t, open(t, cfg, tok).Train, tok); got[0] != c.want {
			t.Errorf("%s with its format named: %q", c.row, got)
		}
	}
}

func TestFormatErrors(t *testing.T) {
	tok := chatTokenizer(t, chatML, "<s>", "</s>", "<|im_start|>", "<|im_end|>")
	for _, c := range []struct {
		rows   []string
		change func(*Config)
		want   []string
	}{
		{[]string{`{"conversations": [{"from": "human", "value": "a"}], "id": 1}`}, func(c *Config) { c.Format = FormatAlpaca }, []string{
			"rows.jsonl:1 has keys conversations, id: detected sharegpt, but data.format is alpaca. try: data.format: sharegpt (or auto)",
		}},
		{[]string{`{"text": "x"}`}, func(c *Config) { c.ChatTemplate = "chatml" }, []string{"rows.jsonl:1: chat_template chatml", "format text"}},
		{[]string{`{"a": "x", "b": "y"}`}, nil, []string{"rows.jsonl:1 has keys a, b", "no known format: text (text), input_ids (input_ids), alpaca (instruction, output), prompt_completion (prompt, completion)", "data.columns"}},
		{[]string{`{"a": "x"}`}, func(c *Config) { c.Format = FormatPromptCompletion }, []string{"has keys a", "format prompt_completion needs prompt and completion", "data.columns.prompt=KEY"}},
		{[]string{`{"a": "x"}`}, func(c *Config) { c.Columns = map[string]string{"prompt": "b"} }, []string{`no key "b" for column prompt`, "keys a"}},
		{[]string{`{"text": "x"}`}, func(c *Config) { c.Columns = map[string]string{"promt": "b"} }, []string{`columns: "promt"`, "prompt, completion"}},
		{[]string{`{"prompt": "a", "completion": "b"}`, `{"prompt": "a"}`}, nil, []string{"rows.jsonl:2", `no key "completion"`, "keys prompt", "data.columns.completion=KEY"}},
		{[]string{`{"prompt": "a", "completion": 5}`}, nil, []string{"rows.jsonl:1", "completion is the number 5, not a string"}},
		{[]string{`{"prompt": null, "completion": "b"}`}, nil, []string{"rows.jsonl:1", "prompt is null, not a string"}},
		{[]string{`{"instruction": "a", "output": "b", "history": [["x"]]}`}, nil, []string{"rows.jsonl:1", "pair 1 of history"}},
		{[]string{`{"instruction": "a", "output": "b", "history": "x"}`}, nil, []string{"rows.jsonl:1", "history is a string, expected a list of [prompt, answer] pairs"}},
		{[]string{`{"segments": [{"text": "a"}]}`}, nil, []string{"rows.jsonl:1", "segment 1 of segments"}},
		{[]string{`{"segments": 3}`}, nil, []string{"rows.jsonl:1", "segments is the number 3"}},
		{[]string{`{"messages": [{"role": "user", "content": "a"}, "x"]}`}, nil, []string{"rows.jsonl:1", "message 2 of messages is a string, expected an object with role and content"}},
		{[]string{`{"messages": [{"role": "usr", "content": "a"}, {"role": "assistant", "content": "b"}]}`}, func(c *Config) { c.ChatTemplate = "chatml" }, []string{"rows.jsonl:1", `message 1 has the role "usr", expected one of user, assistant, system`, "try: "}},
		{[]string{`{"messages": [{"role": 1, "content": "a"}]}`}, nil, []string{"rows.jsonl:1", "message 1 has the number 1 as its role"}},
		{[]string{`{"messages": [{"role": "user", "content": {"a": 1}}]}`}, nil, []string{"rows.jsonl:1", "message 1 has an object as its content"}},
		{[]string{`{"messages": "x"}`}, nil, []string{"rows.jsonl:1", "messages is a string, expected a list of messages with role and content"}},
		{[]string{`{"messages": [{"role": "assistant", "content": null}]}`}, nil, []string{"rows.jsonl:1", "chat template", "a string + None", "data.chat_template=chatml"}},
		{[]string{`{"conversations": [{"from": "alien", "value": "a"}]}`}, nil, []string{"rows.jsonl:1", `message 1 is from "alien"`, "human"}},
		{[]string{`{"conversations": [{"from": "gpt", "value": null}]}`}, nil, []string{"rows.jsonl:1", "message 1 has null as its value"}},
		{[]string{`{"prompt": "a", "completion": " "}`, `{"prompt": "a", "completion": ""}`}, nil, []string{"none of 2 rows has labels"}},
		{[]string{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]}`}, nil, []string{"none of 1 rows has labels"}},
		{[]string{`{"messages": []}`}, nil, []string{"none of 1 rows has labels"}},
		{[]string{`{"messages": [{"role": "user", "content": "a"}]}`}, nil, []string{"none of 1 rows has labels"}},
		{
			[]string{`{"prompt": "aaaaaaaa", "completion": "b"}`, `{"prompt": "aaaaaaaaaaaa", "completion": "b"}`, `{"prompt": "", "completion": "b"}`},
			func(c *Config) { c.SequenceLength = 4 },
			[]string{"rows.jsonl:1", "10 tokens exceed sequence_length 4 (2 of 3 rows are too long, the longest has 14)", "data.truncate: true", "data.sequence_length: 14"},
		},
		{
			[]string{`{"text": "aaaaaaaa"}`},
			func(c *Config) { packing := false; c.SequenceLength, c.Packing = 4, &packing },
			[]string{"rows.jsonl:1", "exceed sequence_length 4", "try: data.packing: true to split texts into rows, data.truncate: true, or data.sequence_length:"},
		},
		{
			[]string{`{"prompt": "aaaaaaaa", "completion": "b"}`, `{"prompt": "aaaaaaaaaaaa", "completion": "b"}`},
			func(c *Config) { c.SequenceLength, c.Truncate = 4, true },
			[]string{"no label tokens in 2 of 2 rows: prompts fill sequence_length 4 (median row: 14 tokens)", "data.sequence_length=16"},
		},
		{[]string{`{"messages": [{"role": "user", "content": "a"}]}`}, func(c *Config) { c.ChatTemplate = "no/such.jinja" }, []string{"chat_template", "no/such.jinja"}},
	} {
		cfg := rowsConfig(t, c.rows...)
		if c.change != nil {
			c.change(&cfg)
		}
		_, err := Open(t.Context(), cfg, ModelInfo{}, tok, nil)
		wantError(t, err, c.want...)
	}
	_, err := Open(t.Context(), rowsConfig(t, `{"messages": [{"role": "user", "content": "a"}]}`), ModelInfo{}, bytesTokenizer(t), nil)
	wantError(t, err, "has none", "data.chat_template=chatml")
	cfg := rowsConfig(t, `{"messages": [{"role": "user", "content": "a"}]}`)
	cfg.ChatTemplate = write(t, "own.jinja", "{% include 'x' %}")
	_, err = Open(t.Context(), cfg, ModelInfo{}, tok, nil)
	wantError(t, err, "own.jinja is not supported", `line 1: unsupported tag "include"`, "chatml")
	cfg = rowsConfig(t, "x")
	cfg.Path, cfg.Format = write(t, "x.txt", "abc"), FormatAlpaca
	_, err = Open(t.Context(), cfg, ModelInfo{}, tok, nil)
	wantError(t, err, "x.txt is plain text, but format alpaca needs rows")
}

// Truncated answers are not labels, and rows without labels are skipped.
func TestAnswersTruncated(t *testing.T) {
	tok := chatTokenizer(t, "", "<s>", "</s>")
	cfg := rowsConfig(t, `{"prompt": "ab", "completion": "cdef"}`, `{"prompt": "abcde", "completion": "f"}`, `{"prompt": "a", "completion": "b"}`, `{"prompt": "a", "completion": ""}`)
	cfg.SequenceLength, cfg.Truncate = 4, true
	s := open(t, cfg, tok)
	if got := marked(t, s.Train, tok); !slices.Equal(got, []string{"ab«cd»", "a«b</s>»"}) {
		t.Errorf("rows %q", got)
	}
	if i := s.Train.Info(); i.Truncated != 1 || i.Skipped != 2 || i.LabelCount != 4 || i.Tokens != 7 || i.Length != 4 {
		t.Errorf("info %+v", i)
	}
	if where := s.Train.Where(1); !strings.HasSuffix(where, "rows.jsonl:3") {
		t.Errorf("row 1 is from %s", where)
	}
}

// Packed answers are whole, in order, and do not attend to each other.
func TestAnswersPacked(t *testing.T) {
	tok := chatTokenizer(t, "", "<s>", "</s>")
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "rows")
		var lines, want []string
		for i := range n {
			p, a := strings.Repeat("p", rapid.IntRange(0, 6).Draw(rt, "prompt")), strings.Repeat(string(rune('a'+i)), rapid.IntRange(1, 4).Draw(rt, "answer"))
			lines = append(lines, fmt.Sprintf(`{"prompt": %q, "completion": %q}`, p, a))
			want = append(want, p+"«"+a+"</s>»")
		}
		cfg := rowsConfig(t, lines...)
		cfg.SequenceLength, cfg.Packing = rapid.IntRange(11, 30).Draw(rt, "length"), new(true)
		s := open(t, cfg, tok)
		if got := marked(t, s.Train, tok); strings.Join(got, "") != strings.Join(want, "") && strings.ReplaceAll(strings.Join(got, ""), "»«", "") != strings.ReplaceAll(strings.Join(want, ""), "»«", "") {
			rt.Fatalf("rows %q of %q", got, want)
		}
		var r, before Row
		for i := range s.Train.Len() {
			if err := s.Train.Row(i, &r); err != nil {
				rt.Fatal(err)
			}
			if len(r.InputIDs) > cfg.SequenceLength || len(r.Docs) != len(r.InputIDs) {
				rt.Fatalf("row %d: %d tokens, %d documents", i, len(r.InputIDs), len(r.Docs))
			}
			first := slices.Index(r.Docs, 1)
			if first < 0 {
				first = len(r.Docs)
			}
			if i > 0 && len(before.InputIDs)+first <= cfg.SequenceLength {
				rt.Fatalf("row %d starts with a document that fits into the previous row", i)
			}
			before = Row{InputIDs: slices.Clone(r.InputIDs)}
		}
		m := newMicroBatch(cfg.SequenceLength, 0, s.Train.Info())
		if err := m.add(s.Train, 0, 0, &r, &LoaderConfig{}); err != nil {
			rt.Fatal(err)
		}
		for k := 1; k < len(r.Docs); k++ {
			if r.Docs[k] != r.Docs[k-1] && (m.Targets[k-1] != Ignored || m.Positions[k] != 0) {
				rt.Fatalf("position %d begins an example: target before %d, position %d", k, m.Targets[k-1], m.Positions[k])
			}
		}
	})
}

// The labels of a conversation are the assistant's messages with their end tokens, for templates
// that mark answers in different ways.
func TestAssistantLabels(t *testing.T) {
	special := []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<turn>", "</turn>", "<|start|>", "<|end|>", "<|turn|>", "<|user|>", "<|assistant|>"}
	for file, turn := range map[string]func(content string, last bool) string{
		"chatml.jinja":  func(c string, _ bool) string { return c + "<|im_end|>" },
		"qwen2.5.jinja": func(c string, _ bool) string { return c + "<|im_end|>" },
		"qwen3.jinja": func(c string, last bool) string {
			return map[bool]string{true: "<think>\n\n</think>\n\n" + strings.TrimLeft(c, "\n"), false: c}[last] + "<|im_end|>"
		},
		"generation.jinja": func(c string, _ bool) string { return c + "</s>" + "\n" },
		"parts.jinja":      func(c string, _ bool) string { return strings.TrimSpace(c) + "</turn>" },
		"headers.jinja":    func(c string, _ bool) string { return strings.TrimSpace(c) + "<|turn|>" },
		"brackets.jinja":   func(c string, _ bool) string { return strings.TrimSpace(c) + " </s>" },
		"lines.jinja":      func(c string, _ bool) string { return c + "</s>" },
		"mistral.jinja":    func(c string, _ bool) string { return c + "</s>" },
	} {
		source, err := os.ReadFile(filepath.Join("../internal/jinja/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		tok := chatTokenizer(t, string(source), special...)
		t.Run(file, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				var messages []any
				var want []string
				for turns := 1 + rng.IntN(3); turns > 0; turns-- {
					answer := word(rng)
					messages = append(messages, message("user", word(rng)), message("assistant", answer))
					want = append(want, turn(answer, turns == 1))
				}
				blob, err := json.Marshal(map[string]any{"messages": messages})
				if err != nil {
					t.Fatal(err)
				}
				got := marked(t, open(t, rowsConfig(t, string(blob)), tok).Train, tok)[0]
				var labeled []string
				for part := range strings.SplitSeq(got, "«") {
					if answer, _, ok := strings.Cut(part, "»"); ok {
						labeled = append(labeled, answer)
					}
				}
				if file == "brackets.jinja" {
					for i := range labeled {
						labeled[i] = strings.TrimPrefix(labeled[i], " ")
					}
				}
				if !slices.Equal(labeled, want) {
					t.Fatalf("%s\nrow %q\nlabels %q\nwant %q", blob, got, labeled, want)
				}
			}
		})
	}
}

// TestToolsOrder: templates write objects in file order, as Jinja2 does.
func TestToolsOrder(t *testing.T) {
	blob, err := os.ReadFile("../internal/jinja/testdata/conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Conversations, Tools map[string]json.RawMessage
		Cases                []struct {
			Template, Conversation, Text string
			Prompt                       bool `json:"generation_prompt"`
		}
	}
	if err := json.Unmarshal(blob, &all); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range all.Cases {
		if c.Conversation != "tools" || c.Prompt || c.Text == "" || all.Tools[c.Conversation] == nil {
			continue
		}
		n++
		source, err := os.ReadFile("../internal/jinja/testdata/" + c.Template)
		if err != nil {
			t.Fatal(err)
		}
		tok := chatTokenizer(t, string(source), "<s>", "</s>", "<|im_start|>", "<|im_end|>")
		var line bytes.Buffer
		if err := json.Compact(&line, fmt.Appendf(nil, `{"messages": %s, "tools": %s}`, all.Conversations[c.Conversation], all.Tools[c.Conversation])); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"content", "said"} {
			cfg := rowsConfig(t, strings.ReplaceAll(line.String(), `"content":`, fmt.Sprintf("%q:", key)))
			cfg.TrainOn, cfg.Columns = trainAll, map[string]string{"content": key}
			if got := marked(t, open(t, cfg, tok).Train, tok); len(got) != 1 || got[0] != "«"+c.Text+"»" {
				t.Errorf("%s\n got %q\nwant %q", c.Template, got, c.Text)
			}
		}
	}
	if n < 3 {
		t.Errorf("%d templates with tools", n)
	}
}

func message(role, content string) any { return map[string]any{"role": role, "content": content} }

// word is a text, optionally with white space around it.
func word(rng *rand.Rand) string {
	parts := []string{"", "", "\n", " ", "  \n"}
	words := []string{"Hello", "é中", "a\n\nb", "assistant", "user", "[/INST]", "x: y", "ok"}
	return parts[rng.IntN(len(parts))] + words[rng.IntN(len(words))] + parts[rng.IntN(len(parts))]
}

// If the template writes bos, no other is added.
func TestChatOneBOS(t *testing.T) {
	tok := chatTokenizer(t, "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{{ eos_token if m.role == 'assistant' }}{% endfor %}", "<s>", "</s>")
	cfg := rowsConfig(t, `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`)
	if got := marked(t, open(t, cfg, tok).Train, tok); got[0] != "<s>[a][«b]</s>»" {
		t.Errorf("row %q", got)
	}
}

// Tokens that overlap the start of an answer are labels, whether or not tokens spell the text.
func TestTokenRanges(t *testing.T) {
	tok, err := tokenizer.Train(t.Context(), slices.Values([]string{strings.Repeat("ab:cd ef ", 50)}), tokenizer.TrainOptions{VocabSize: 270})
	if err != nil {
		t.Fatal(err)
	}
	a := newSpanEncoder(tok, false)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abcdef: é")), 0, 30, -1).Draw(rt, "text")
		lo := rapid.IntRange(0, len(text)).Draw(rt, "lo")
		hi := rapid.IntRange(lo, len(text)).Draw(rt, "hi")
		if lo == hi {
			return
		}
		ids := tok.Encode(text, tokenizer.Options{})
		ranges := a.tokenRanges(text, ids, [][2]int{{lo, hi}})
		at := 0
		for i, id := range ids {
			n := len(tok.Decode([]int32{id}))
			want := at < hi && at+n > lo
			got := len(ranges) > 0 && i >= ranges[0][0] && i < ranges[0][1]
			if got != want {
				rt.Fatalf("%q [%d:%d]: token %d at %d of %d bytes: label %v", text, lo, hi, i, at, n, got)
			}
			at += n
		}
	})
}

// Any row gives a valid example, or an error of one line.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{
		`{"text": "a"}`, `{"prompt": "a", "completion": "b"}`, `{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}`,
		`{"instruction": "a", "input": "b", "output": "c", "system": "d", "history": [["e", "f"]]}`,
		`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}]}`,
		`{"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}], "tools": [{"name": "f"}]}`,
		`{"messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]}`,
		`{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "system": "c"}`,
		`{"segments": [{"text": "a", "label": true}, {"text": "", "label": false}]}`, `{"text": "a", "label": "b"}`,
		`{"sentence1": "a", "sentence2": "b", "label": 1}`, `{}`, `{"messages": []}`, `{"messages": [null]}`,
	} {
		for k := range 8 {
			f.Add([]byte(s), uint8(32*k+k%4))
		}
	}
	var toks []*tokenizer.Tokenizer
	for _, name := range []string{"chatml", "qwen3", "generation", "headers"} {
		source, err := os.ReadFile("../internal/jinja/testdata/" + name + ".jinja")
		if err != nil {
			f.Fatal(err)
		}
		toks = append(toks, chatTokenizer(f, string(source), "<s>", "</s>", "<|im_start|>", "<|im_end|>"))
	}
	f.Fuzz(func(t *testing.T, line []byte, k uint8) {
		r := record{where: "x:1", fields: map[string]any{}}
		if newJSONReader(false).object(line, r.fields) != nil {
			return
		}
		tok := toks[int(k)%len(toks)]
		c := DefaultConfig()
		if k >= 128 {
			c.ChatTemplate = chatOfTokenizer
		}
		format, err := c.rowFormat(&source{path: "x", format: FormatJSONL}, &r, Task(k%3))
		if err != nil || (ModelInfo{}).checkTask(c, format, &r) != nil || format == FormatInputIDs {
			return
		}
		enc, err := c.encoderOf(format, &r, tok)
		if err != nil {
			t.Fatal(err)
		}
		ex := example{Class: Ignored}
		ok, err := enc.encode(&r, &ex)
		if err != nil {
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000 {
				t.Fatalf("not a line: %v", err)
			}
			return
		}
		if !ok {
			return
		}
		if err := ex.check(); err != nil {
			t.Fatal(err)
		}
		labeled := len(ex.Labels) == 0 && len(ex.IDs) > 0
		for i, l := range ex.Labels {
			if l != Ignored && l != ex.IDs[i] {
				t.Fatalf("label %d of token %d", l, ex.IDs[i])
			}
			labeled = labeled || i > 0 && l != Ignored
		}
		if !labeled {
			t.Fatal("an example without labels")
		}
	})
}
