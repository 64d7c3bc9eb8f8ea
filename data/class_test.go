package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/tokenizer"
)

// wordTokenizer is a BERT tokenizer: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then words.
func wordTokenizer(t testing.TB, words ...string) *tokenizer.Tokenizer {
	t.Helper()
	dir := t.TempDir()
	vocab := strings.Join(append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, words...), "\n")
	for name, text := range map[string]string{
		"vocab.txt": vocab, "tokenizer_config.json": `{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func classify(t testing.TB, p ModelInfo, c Config, tok *tokenizer.Tokenizer) *Sets {
	t.Helper()
	p.Task = SequenceClassification
	s, err := Open(t.Context(), c, p, tok, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestClassification(t *testing.T) {
	tok := wordTokenizer(t, "a", "b", "c", "d")
	for _, c := range []struct {
		rows   []string
		change func(*Config)
		ids    [][]int32
		types  []int32 // of the first row
		class  []int32
		labels []string
	}{
		{[]string{`{"text": "a b", "label": 1}`, `{"text": "c", "label": 0}`}, nil, [][]int32{{2, 5, 6, 3}, {2, 7, 3}}, nil, []int32{1, 0}, nil},
		{[]string{`{"sentence": "a", "label": true}`}, nil, [][]int32{{2, 5, 3}}, nil, []int32{1}, nil},
		{[]string{`{"text": "a", "labels": 2, "source": "x"}`}, nil, [][]int32{{2, 5, 3}}, nil, []int32{2}, nil},
		{[]string{`{"body": "a", "y": 2}`}, func(c *Config) { c.Columns = map[string]string{"text": "body", "label": "y"} }, [][]int32{{2, 5, 3}}, nil, []int32{2}, nil},
		{[]string{`{"text": "a", "label": "spam"}`, `{"text": "b", "label": "ham"}`}, nil, [][]int32{{2, 5, 3}, {2, 6, 3}}, nil, []int32{1, 0}, []string{"ham", "spam"}},
		{[]string{`{"text": "a", "label": "1"}`, `{"text": "b", "label": " 0"}`}, nil, [][]int32{{2, 5, 3}, {2, 6, 3}}, nil, []int32{1, 0}, nil},
		{[]string{`{"text": "[SEP] [CLS]", "label": 0}`}, func(c *Config) { c.SequenceLength = 3 }, [][]int32{{2, 1, 3}}, nil, []int32{0}, nil},
		{[]string{`{"text": "a b c d", "label": 0}`}, func(c *Config) { c.SequenceLength = 4 }, [][]int32{{2, 5, 6, 3}}, nil, []int32{0}, nil},
		{[]string{`{"text": "", "label": 0}`}, nil, [][]int32{{2, 3}}, nil, []int32{0}, nil},
		{[]string{`{"sentence1": "a b", "sentence2": "c", "label": 0}`}, nil, [][]int32{{2, 5, 6, 3, 7, 3}}, []int32{0, 0, 0, 0, 1, 1}, []int32{0}, nil},
		{[]string{`{"premise": "a b c d", "hypothesis": "c d", "label": 0}`}, func(c *Config) { c.SequenceLength = 7 }, [][]int32{{2, 5, 6, 3, 7, 8, 3}}, []int32{0, 0, 0, 0, 1, 1, 1}, []int32{0}, nil},
		{[]string{`{"question1": "a", "question2": "a b c d", "label": 0}`}, func(c *Config) { c.SequenceLength = 5 }, [][]int32{{2, 5, 3, 5, 3}}, []int32{0, 0, 0, 1, 1}, []int32{0}, nil},
	} {
		cfg := rowsConfig(t, c.rows...)
		if c.change != nil {
			c.change(&cfg)
		}
		s := classify(t, ModelInfo{}, cfg, tok)
		if s.Format != FormatClassification || !slices.Equal(s.Labels, c.labels) || s.Train.Len() != len(c.ids) {
			t.Errorf("%s: format %s, labels %q, %d rows", c.rows, s.Format, s.Labels, s.Train.Len())
			continue
		}
		var r Row
		for i := range c.ids {
			if err := s.Train.Row(i, &r); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.InputIDs, c.ids[i]) || r.Class != c.class[i] || i == 0 && !slices.Equal(r.Types, c.types) {
				t.Errorf("%s: row %d is %v with label %d and types %v", c.rows, i, r.InputIDs, r.Class, r.Types)
			}
		}
	}
}

func TestClassificationErrors(t *testing.T) {
	tok := wordTokenizer(t, "a")
	row := func(label string) string { return fmt.Sprintf(`{"text": "a", "label": %s}`, label) }
	for _, c := range []struct {
		rows   []string
		p      ModelInfo
		change func(*Config)
		want   []string
	}{
		{[]string{row("0"), row("2")}, ModelInfo{Task: SequenceClassification, Labels: 2}, nil, []string{"rows.jsonl:2", "the label is 2, but the model has 2 labels", "model.num_labels"}},
		{[]string{row("-1")}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:1", "the label is -1"}},
		{[]string{row("0.5")}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:1", "0.5", "regression"}},
		{[]string{row("0"), row("null")}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:2", "the label is null"}},
		{[]string{row("0"), row(`"spam"`)}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:2", `"spam" is not an integer`}},
		{[]string{row(`"spam"`), row("0")}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:2", "other rows have names"}},
		{[]string{row(`"a"`), row(`"b"`), row(`"c"`)}, ModelInfo{Task: SequenceClassification, Labels: 2}, nil, []string{"3 labels (a, b, c)", "the model has 2", "num_labels=3"}},
		{[]string{row(`"a"`), row(`"b"`)}, ModelInfo{Task: SequenceClassification, LabelIDs: map[string]int{"a": 0, "c": 1}}, nil, []string{`label "b" is not in the model's`, "label2id"}},
		{[]string{`{"text": "a"}`}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:1 has keys text", "format text", "data.columns.label"}},
		{[]string{`{"review": "a", "stars": 1}`}, ModelInfo{Task: SequenceClassification}, nil, []string{"match no known format", "try: data.columns.text=KEY data.columns.label=KEY"}},
		{[]string{row("0")}, ModelInfo{}, func(c *Config) { c.Format = FormatClassification }, []string{"rows.jsonl:1", "the model predicts tokens"}},
		{[]string{row("0"), `{"label": 0}`}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:2", `no key "text"`}},
		{[]string{`{"text": 5, "label": 0}`}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:1", "text is the number 5"}},
		{[]string{row("0")}, ModelInfo{Task: SequenceClassification}, func(c *Config) { c.SequenceLength = 2 }, []string{"sequence_length 2 leaves no room"}},
		{[]string{`{"input_ids": [1], "label": 0}`, `{"input_ids": [1]}`}, ModelInfo{Task: SequenceClassification}, nil, []string{"rows.jsonl:2", "no label"}},
		{[]string{`{"input_ids": [1], "label": 5}`}, ModelInfo{Task: SequenceClassification, Labels: 2}, nil, []string{"rows.jsonl:1", "the label is 5"}},
		{[]string{`{"prompt": "a", "completion": "a"}`}, ModelInfo{Task: MaskedLM}, nil, []string{"rows.jsonl:1", "prompt_completion has answers", "masked"}},
	} {
		cfg := rowsConfig(t, c.rows...)
		if c.change != nil {
			c.change(&cfg)
		}
		_, err := Open(t.Context(), cfg, c.p, tok, nil)
		wantError(t, err, c.want...)
	}
	_, err := Open(t.Context(), rowsConfig(t, `{"sentence1": "a", "sentence2": "a", "label": 0}`), ModelInfo{Task: SequenceClassification}, bytesTokenizer(t), nil)
	wantError(t, err, "text pairs", "has no separator")
}

// The model's label2id applies, and the training set's labels apply to the evaluation set.
func TestLabelNames(t *testing.T) {
	tok := wordTokenizer(t, "a")
	cfg := rowsConfig(t, `{"text": "a", "label": "spam"}`, `{"text": "a", "label": "eggs"}`, `{"text": "a", "label": "ham"}`)
	cfg.EvalPath = write(t, "eval.jsonl", `{"text": "a", "label": "ham"}`)
	var r Row
	s := classify(t, ModelInfo{Labels: 3, LabelIDs: map[string]int{"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}}, cfg, tok)
	if err := s.Eval.Row(0, &r); err != nil || r.Class != 1 || !slices.Equal(s.Labels, []string{"eggs", "ham", "spam"}) {
		t.Errorf("evaluation label %d of %q, %v", r.Class, s.Labels, err)
	}
	s = classify(t, ModelInfo{Labels: 4, LabelIDs: map[string]int{"spam": 0, "ham": 1, "eggs": 2, "bacon": 3}}, cfg, tok)
	if err := s.Train.Row(1, &r); err != nil || r.Class != 2 || len(s.Labels) != 4 {
		t.Errorf("label %d of %q, %v", r.Class, s.Labels, err)
	}
	cfg.EvalPath = write(t, "eval.jsonl", `{"text": "a", "label": "tofu"}`)
	_, err := Open(t.Context(), cfg, ModelInfo{Task: SequenceClassification}, tok, nil)
	wantError(t, err, "eval.jsonl:1", `the label "tofu" is not one of eggs, ham, spam`)
}

// A truncated row keeps the template's tokens and the maximum length, and its types match its
// parts.
func TestPairsTruncated(t *testing.T) {
	tok := wordTokenizer(t, "a", "b")
	l, err := layoutOf(tok, true)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(0, 9).Draw(t, "first"), rapid.IntRange(0, 9).Draw(t, "second")
		maxLen := rapid.IntRange(4, 25).Draw(t, "maxLen")
		ids, _ := tok.EncodePair(strings.Repeat("a ", n), strings.Repeat("b ", m), tokenizer.Options{AddSpecialTokens: true})
		got, types := l.truncate(slices.Clone(ids), maxLen, nil)
		if len(got) != min(len(ids), maxLen) || len(types) != len(got) {
			t.Fatalf("%d tokens, %d types of %d", len(got), len(types), len(ids))
		}
		k := slices.Index(got, 3)
		first, second := k-1, len(got)-k-2
		if got[0] != 2 || got[len(got)-1] != 3 || slices.Contains(types[:k+1], 1) || slices.Contains(types[k+1:], 0) {
			t.Fatalf("%v with types %v", got, types)
		}
		if len(ids) > maxLen && (first < n && first < second-1 || second < m && second < first-1) {
			t.Fatalf("%d and %d left of %d and %d", first, second, n, m)
		}
	})
}

// Types and labels reach the micro-batch.
func TestPairsInBatches(t *testing.T) {
	tok := wordTokenizer(t, "a", "b")
	s := classify(t, ModelInfo{}, rowsConfig(t, `{"text": "a", "text_pair": "b", "label": 1}`, `{"text": "a a", "text_pair": "b", "label": 0}`), tok)
	for m, err := range EvalBatches(s.Train, LoaderConfig{MicroBatchSize: 2, Task: SequenceClassification}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := []int32{0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1}; !slices.Equal(m.Types, want) || !slices.Equal(m.Classes, []int32{1, 0}) || m.LabelCount != 2 {
			t.Errorf("types %v, classes %v, counted %d", m.Types, m.Classes, m.LabelCount)
		}
	}
}

// The sentiment corpus fine-tunes BERT.
func TestSentiment(t *testing.T) {
	const corpus, dir = "../../shared/data/corpora/sentiment_train.jsonl", "../../shared/data/tokenizers/bert-base-uncased"
	if _, err := os.Stat(corpus); err != nil {
		t.Skip("no corpus:  ", err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Path, cfg.CacheDir, cfg.SequenceLength = corpus, t.TempDir(), 64
	s := classify(t, ModelInfo{Vocab: 30522, Labels: 2}, cfg, tok)
	var r Row
	counts := map[int32]int{}
	for i := range s.Train.Len() {
		if err := s.Train.Row(i, &r); err != nil {
			t.Fatal(err)
		}
		counts[r.Class]++
		if r.InputIDs[0] != 101 || r.InputIDs[len(r.InputIDs)-1] != 102 || len(r.InputIDs) > 64 {
			t.Fatalf("row %d is %v", i, r.InputIDs)
		}
	}
	t.Logf("%+v, rows of each label: %v", s.Train.Info(), counts)
	if len(counts) != 2 || counts[0] < 1000 || counts[1] < 1000 {
		t.Errorf("labels %v", counts)
	}
}

// A row without a label is computed without loss.
func TestRowsWithoutLabels(t *testing.T) {
	path := write(t, "a.jsonl", `{"input_ids": [4, 5]}
{"input_ids": [6], "label": 1}
{"input_ids": [7], "label": null}
{"input_ids": [8], "label": -100}
`)
	rows, err := openRows(t, path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for m, err := range EvalBatches(rows, LoaderConfig{MicroBatchSize: 4, Task: SequenceClassification}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := []int32{Ignored, 1, Ignored, Ignored}; !slices.Equal(m.Classes, want) || m.LabelCount != 1 {
			t.Errorf("classes %v, counted %d", m.Classes, m.LabelCount)
		}
	}
}

// With CausalLM, a class label does not replace token labels.
func TestLabelsOfRowsAreNotTokens(t *testing.T) {
	path := write(t, "a.jsonl", "{\"input_ids\": [4, 5, 6], \"label\": 1}\n{\"input_ids\": [7, 8]}\n")
	rows, err := openRows(t, path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for m, err := range EvalBatches(rows, LoaderConfig{MicroBatchSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := []int32{5, 6, Ignored, 8, Ignored}; m.Classes != nil || !slices.Equal(m.Targets, want) || m.LabelCount != 3 {
			t.Errorf("classes %v, targets %v, counted %d", m.Classes, m.Targets, m.LabelCount)
		}
	}
}
