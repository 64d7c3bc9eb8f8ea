package tokenizer

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naiveTrain is Train that recounts all pairs for each merge.
func naiveTrain(texts []string, merges int) (list []merge) {
	var words [][]string
	for _, text := range texts {
		gpt2Split{}.split(text, true, func(p string, _ bool) {
			var w []string
			for i := range len(p) {
				w = append(w, p[i:i+1])
			}
			words = append(words, w)
		})
	}
	l := newLearner(nil)
	id := func(s string) int32 { return l.ids[s] }
	for len(list) < merges {
		count := map[[2]string]int{}
		for _, w := range words {
			for i := 0; i+1 < len(w); i++ {
				count[[2]string{w[i], w[i+1]}]++
			}
		}
		var best [2]string
		for p, n := range count {
			b := count[best]
			if n < 2 || n < b || n == b && (id(p[0]) > id(best[0]) || id(p[0]) == id(best[0]) && id(p[1]) >= id(best[1])) {
				continue
			}
			best = p
		}
		if count[best] == 0 {
			break
		}
		joined := best[0] + best[1]
		if _, ok := l.ids[joined]; !ok {
			l.ids[joined] = int32(len(l.tokens))
			l.tokens = append(l.tokens, joined)
		}
		list = append(list, merge{toRunes(best[0]), toRunes(best[1])})
		for k, w := range words {
			var out []string
			for i := 0; i < len(w); i++ {
				if i+1 < len(w) && w[i] == best[0] && w[i+1] == best[1] {
					out = append(out, joined)
					i++
				} else {
					out = append(out, w[i])
				}
			}
			words[k] = out
		}
	}
	return list
}

func TestTrainMatchesNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[ab \n]{0,30}|[abcd ]{0,60}`), 1, 6).Draw(t, "texts")
		tok, err := Train(context.Background(), slices.Values(texts), TrainOptions{VocabSize: 256 + 1 + 20})
		if err != nil {
			t.Fatal(err)
		}
		b := tok.model.(*byteBPE)
		var got []merge
		for _, m := range b.list {
			got = append(got, merge{tok.spelled[m[0]], tok.spelled[m[1]]})
		}
		want := naiveTrain(texts, len(got)+1)
		if len(want) > len(got) && tok.VocabSize() == 277 {
			want = want[:len(got)]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("merges %q, want %q", got, want)
		}
		for _, text := range texts {
			if tok.Decode(tok.Encode(text, Options{})) != text {
				t.Fatalf("%q does not come back", text)
			}
		}
	})
}

func TestTrain(t *testing.T) {
	text := readFile(t, shared(t, "corpora/tinyshakespeare.txt"))[:300_000]
	tok, err := Train(t.Context(), slices.Values([]string{text}), TrainOptions{VocabSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if tok.VocabSize() != 1000 || tok.EOS() != 0 || tok.BOS() != 0 || tok.PAD() != 0 || tok.Decode([]int32{0}) != "<|endoftext|>" {
		t.Errorf("vocab %d, EOS %d", tok.VocabSize(), tok.EOS())
	}
	half := len(text) / 2
	half += strings.IndexByte(text[half:], '\n') + 1
	parts := []string{text[half:], text[:half]}
	again, err := Train(t.Context(), slices.Values(parts), TrainOptions{VocabSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := tok.MarshalJSON()
	b, _ := again.MarshalJSON()
	if string(a) != string(b) {
		t.Error("the order of the texts changes the tokenizer")
	}
	if ids := tok.Encode(text, Options{}); len(ids) > len(text)*45/100 {
		t.Errorf("%d tokens for %d bytes", len(ids), len(text))
	}
	dir := t.TempDir()
	if err := tok.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(dir)
	if err != nil || loaded.EOS() != 0 || !slices.Equal(loaded.Encode(text, Options{}), tok.Encode(text, Options{})) {
		t.Errorf("saved and loaded it differs: %v", err)
	}
	if loaded.Digest() != tok.Digest() {
		t.Error("saved and loaded it has another digest")
	}
	other, err := Train(t.Context(), slices.Values(parts[:1]), TrainOptions{VocabSize: 1000})
	if err != nil || other.Digest() == tok.Digest() {
		t.Errorf("another tokenizer has the same digest, or %v", err)
	}
}

func TestTrainErrors(t *testing.T) {
	if _, err := Train(t.Context(), slices.Values([]string{"x"}), TrainOptions{VocabSize: 256}); err == nil {
		t.Error("a vocabulary of 256 with a special token was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Train(ctx, slices.Values([]string{"x"}), TrainOptions{VocabSize: 300}); err == nil {
		t.Error("went on after its context's end")
	}
}

// goSource returns up to size bytes of the standard library.
func goSource(b *testing.B, size int) (texts []string) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || size <= 0 {
			return err
		}
		blob, err := os.ReadFile(path)
		texts = append(texts, string(blob))
		size -= len(blob)
		return err
	})
	if err != nil {
		b.Skip(err)
	}
	return texts
}

func BenchmarkTrainOnGoSource(b *testing.B) {
	texts := goSource(b, 16<<20)
	total := 0
	for _, t := range texts {
		total += len(t)
	}
	for _, vocab := range []int{2048, 8192} {
		b.Run("", func(b *testing.B) {
			for b.Loop() {
				start := time.Now()
				tok, err := Train(b.Context(), slices.Values(texts), TrainOptions{VocabSize: vocab})
				if err != nil || tok.VocabSize() != vocab {
					b.Fatal(err)
				}
				b.Logf("%d bytes, %d tokens in %v", total, vocab, time.Since(start))
			}
		})
	}
}
