package tokenizer

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// vectors calls f with each line of a file in testdata.
func vectors[T any](t *testing.T, name string, f func(v T)) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		f(v)
	}
	if lines.Err() != nil || n == 0 {
		t.Fatalf("%s: %d lines, %v", name, n, lines.Err())
	}
}

type partVector struct {
	Kind    string
	Section json.RawMessage
	Cases   [][2]json.RawMessage
}

// parseCase decodes input and output.
func parseCase[In, Out any](t *testing.T, c [2]json.RawMessage) (in In, out Out) {
	t.Helper()
	if err := json.Unmarshal(c[0], &in); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(c[1], &out); err != nil {
		t.Fatal(err)
	}
	return in, out
}

func TestComponentsMatchHuggingFace(t *testing.T) {
	vectors(t, "parts.jsonl", func(v partVector) {
		switch v.Kind {
		case "normalizer":
			normal, err := readNormalizer(v.Section)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range v.Cases {
				in, want := parseCase[string, string](t, c)
				if got := normal(in); got != want {
					t.Errorf("%.200s: %q became %q, want %q", v.Section, in, got, want)
				}
			}
		case "pre_tokenizer":
			var p splitters
			if err := p.read(v.Section); err != nil {
				t.Fatal(err)
			}
			p.add()
			for _, c := range v.Cases {
				in, want := parseCase[string, []string](t, c)
				if got := through(p.list, in); !slices.Equal(got, want) {
					t.Errorf("%.200s: %q was split into %q, want %q", v.Section, in, got, want)
				}
			}
		case "decoder":
			for _, c := range v.Cases {
				in, want := parseCase[[]string, string](t, c)
				tok := &Tokenizer{spelled: in, inModel: make([]bool, len(in))}
				if err := tok.decoder.read(v.Section); err != nil {
					t.Fatal(err)
				}
				for i := range in {
					tok.inModel[i] = true
				}
				tok.finish()
				ids := make([]int32, len(in))
				for i := range ids {
					ids[i] = int32(i)
				}
				if got := tok.Decode(ids); got != want {
					t.Errorf("%.200s: %q became %q, want %q", v.Section, in, got, want)
				}
			}
		default:
			t.Fatalf("kind %q", v.Kind)
		}
	})
}

// through runs a text through a chain of splitters.
func through(list []splitter, text string) (out []string) {
	var emit func(i int) pieceFunc
	emit = func(i int) pieceFunc {
		return func(p string, first bool) {
			switch {
			case p == "":
			case i == len(list):
				out = append(out, p)
			default:
				list[i].split(p, first, emit(i+1))
			}
		}
	}
	emit(0)(text, true)
	return out
}

func TestModelsMatchHuggingFace(t *testing.T) {
	type vector struct {
		Name      string
		Tokenizer json.RawMessage
		Cases     [][4]json.RawMessage // text, ids with special tokens, ids without, decoded
	}
	vectors(t, "models.jsonl", func(v vector) {
		tok, err := parse(v.Tokenizer, nil)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		for _, c := range v.Cases {
			text, want := parseCase[string, []int32](t, [2]json.RawMessage{c[0], c[1]})
			plain, decoded := parseCase[[]int32, *string](t, [2]json.RawMessage{c[2], c[3]})
			if got := tok.Encode(text, Options{AddSpecialTokens: true}); !slices.Equal(got, want) {
				t.Errorf("%s: %q: %v, want %v", v.Name, text, got, want)
			}
			if got := tok.Encode(text, Options{}); !slices.Equal(got, plain) {
				t.Errorf("%s: %q without special tokens: %v, want %v", v.Name, text, got, plain)
			}
			if got := tok.Decode(want); decoded != nil && got != *decoded {
				t.Errorf("%s: %v is %q, want %q", v.Name, want, got, *decoded)
			}
		}
		saveAndCompare(t, tok, v.Name)
	})
}

// saveAndCompare loads a saved tokenizer.
func saveAndCompare(t *testing.T, a *Tokenizer, name string) {
	t.Helper()
	dir := t.TempDir()
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	b, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	const text = "The <s>abab thing, Hello é 你 zqx <m> 12 <sep> \n"
	for _, o := range []Options{{}, {AddSpecialTokens: true}, {SplitSpecialTokens: true}} {
		if x, y := a.Encode(text, o), b.Encode(text, o); !slices.Equal(x, y) || a.Decode(x) != b.Decode(x) {
			t.Errorf("%s: %v, and after saving %v", name, x, y)
		}
	}
	if a.Digest() != b.Digest() || a.VocabSize() != b.VocabSize() {
		t.Errorf("%s: another digest after saving", name)
	}
}

func TestSentencePieceModels(t *testing.T) {
	type vector struct {
		File  string
		Cases [][3]json.RawMessage // text, ids, decoded
	}
	vectors(t, "sentencepiece.jsonl", func(v vector) {
		tok, err := Load(filepath.Join("testdata", v.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range v.Cases {
			text, want := parseCase[string, []int32](t, [2]json.RawMessage{c[0], c[1]})
			_, decoded := parseCase[string, *string](t, [2]json.RawMessage{c[0], c[2]})
			if got := tok.Encode(text, Options{}); !slices.Equal(got, want) {
				t.Errorf("%s: %q: %v, want %v", v.File, text, got, want)
			}
			if got := tok.Encode(text, Options{AddSpecialTokens: true}); !slices.Equal(got, append([]int32{tok.BOS()}, want...)) {
				t.Errorf("%s: %q with <s>: %v", v.File, text, got)
			}
			if got := tok.Decode(want); decoded != nil && got != *decoded {
				t.Errorf("%s: %v is %q, want %q", v.File, want, got, *decoded)
			}
		}
		saveAndCompare(t, tok, v.File)
	})
}
