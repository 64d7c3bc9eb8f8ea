package tokenizer

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVocabularyOfBytes(t *testing.T) {
	tok, err := Train(context.Background(), slices.Values([]string{strings.Repeat("the dog and the fox. ", 9)}), TrainOptions{VocabSize: 270})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tok.Vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Tokens) != tok.VocabSize() || v.Pieces || v.Pattern != "gpt2" || v.SpacePrefix || v.AddBOS || v.AddEOS || v.Normalizes {
		t.Errorf("%+v", v)
	}
	if v.Tokens[0] != endOfText || v.Kinds[0] != ControlToken || v.Kinds[5] != NormalToken {
		t.Errorf("token 0 is %q of kind %d, token 5 of kind %d", v.Tokens[0], v.Kinds[0], v.Kinds[5])
	}
	if n := tok.VocabSize() - 257; len(v.Merges) != n {
		t.Errorf("%d merges, want %d", len(v.Merges), n)
	}
	for i, m := range v.Merges { // merge i makes token 257+i
		if joined := strings.Replace(m, " ", "", 1); joined != v.Tokens[257+i] {
			t.Errorf("merge %d is %q, but its token is %q", i, m, v.Tokens[257+i])
		}
	}
}

// Merging by the scores of pieces, as sentencepiece and llama.cpp do, gives the tokens of the tokenizer, whether the
// scores are from tokenizer.model or from the order of merges in tokenizer.json.
func TestVocabularyOfPieces(t *testing.T) {
	dir := shared(t, "tokenizers/mistral")
	for _, name := range []string{"tokenizer.json", "tokenizer.model"} {
		tok, err := Load(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		v, err := tok.Vocabulary()
		if err != nil {
			t.Fatal(err)
		}
		if !v.Pieces || !v.SpacePrefix || v.Kinds[0] != UnknownToken || v.Kinds[3] != ByteToken || v.Tokens[3] != "<0x00>" {
			t.Errorf("%s: pieces %t, space prefix %t, kinds %v", name, v.Pieces, v.SpacePrefix, v.Kinds[:5])
		}
		for _, text := range []string{"Hello world", "the quick brown foxes' unbelievable 12345 tails", "  spaces   in\nlines", "Москва 東京 🚀"} {
			want := tok.Encode(text, Options{})
			if got := v.encodePieces(" " + text); !slices.Equal(got, want) {
				t.Errorf("%s: %q is %v by scores, want %v", name, text, got, want)
			}
		}
	}
}

// encodePieces merges the adjacent pair with the highest score, the first of equal ones.
func (v *Vocabulary) encodePieces(text string) (ids []int32) {
	by := map[string]int32{}
	for id, token := range v.Tokens {
		by[token] = int32(id)
	}
	parts := strings.Split(strings.ReplaceAll(text, " ", spSpace), "")
	for {
		best := -1
		var score float32
		for i := range len(parts) - 1 {
			if id, ok := by[parts[i]+parts[i+1]]; ok && v.Kinds[id] == NormalToken && (best < 0 || v.Scores[id] > score) {
				best, score = i, v.Scores[id]
			}
		}
		if best < 0 {
			break
		}
		parts = slices.Replace(parts, best, best+2, parts[best]+parts[best+1])
	}
	for _, p := range parts {
		if id, ok := by[p]; ok {
			ids = append(ids, id)
			continue
		}
		for _, b := range []byte(p) {
			ids = append(ids, by["<0x"+strings.ToUpper(string("0123456789abcdef"[b>>4])+string("0123456789abcdef"[b&15]))+">"])
		}
	}
	return ids
}

func TestNoVocabulary(t *testing.T) {
	for _, model := range []string{
		`{"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}`,
		`{"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "unk_token": "a", "fuse_unk": true}`,
	} {
		tok, err := parse([]byte(`{"model": `+model+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tok.Vocabulary(); err == nil {
			t.Errorf("%s has a vocabulary", model)
		}
	}
}
