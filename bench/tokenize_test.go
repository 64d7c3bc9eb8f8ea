package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/tokenizer"
)

const exampleTokenizer = "../examples/llama-fsdp/model"

// idsOf writes ids of texts as the peer does.
func idsOf(t *testing.T, texts ...string) []byte {
	t.Helper()
	tok, err := tokenizer.Load(exampleTokenizer)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, text := range texts {
		ids := tok.Encode(text, tokenizer.Options{})
		b = binary.NativeEndian.AppendUint32(b, uint32(len(ids)))
		for _, id := range ids {
			b = binary.NativeEndian.AppendUint32(b, uint32(id))
		}
	}
	return b
}

// TestTokenize compares with a fake peer whose ids are right, and then not.
func TestTokenize(t *testing.T) {
	dir := t.TempDir()
	text, ids := filepath.Join(dir, "prose.txt"), filepath.Join(dir, "ids")
	if err := os.WriteFile(text, []byte("To be, or not to be:\nthat is the question.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	right := idsOf(t, "To be, or not to be:\nthat is the question.\n")
	trireme := script(t, "trireme", `echo '{"kernels":"avx512"}'`)
	tokens, err := filepath.Abs(filepath.Join(exampleTokenizer, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	python := script(t, "python3", `for last; do :; done
case "$2" in
version) echo '{"tokenizers":"0.0"}' ;;
train) mkdir -p "$4/small"; cp `+tokens+` "$4/small"; echo '{"tokenizers":["small"]}' ;;
encode) test "$RAYON_NUM_THREADS" = 1 && cp `+ids+` "$last" && echo '{"first_mb_per_s":2,"mb_per_s":4}' ;;
esac
`)
	measure := func(written []byte, more ...string) (string, error) {
		if err := os.WriteFile(ids, written, 0o644); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"-trireme", trireme, "-python", python, "-pairs", "1", "-texts", text, "tokenize"}, more...), &out, io.Discard)
		return out.String(), err
	}
	for tokenizers, name := range map[string]string{"": "small", exampleTokenizer: "model", exampleTokenizer + "/tokenizer.json": "model"} {
		var more []string
		if tokenizers != "" {
			more = []string{"-tokenizers", tokenizers}
		}
		out, err := measure(right, more...)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"| figure | trireme | tokenizers 0.0 |", "| " + name + ", prose, first pass | ", "| " + name + ", prose | ", "| 4 |", "prose: 1 texts, 0.0 MB, "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in\n%s", want, out)
			}
		}
	}
	wrong := slices.Clone(right)
	wrong[len(wrong)-4]++
	for _, b := range [][]byte{wrong, right[:len(right)-4], nil} {
		if _, err := measure(b); err == nil || !strings.Contains(err.Error(), `tokenize: small, prose: text 1 of 1 has other ids than of tokenizers: "To be, or`) {
			t.Error(err)
		}
	}
}

func TestReadCorpus(t *testing.T) {
	dir := t.TempDir()
	line := strings.Repeat("x", 999) + "\n"
	for name, text := range map[string]string{
		"a.txt": strings.Repeat(line, 20),                 // two texts
		"b.txt": strings.Repeat("y", 2*textBytes) + "\nz", // a long line, and the rest
		"c.txt": "\xff\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := readCorpus("all", dir)
	if err != nil {
		t.Fatal(err)
	}
	var lengths []int
	for _, text := range c.texts {
		lengths = append(lengths, len(text))
	}
	if want := []int{16000, 4000, 2*textBytes + 1, 1}; !slices.Equal(lengths, want) || c.bytes != 20000+2*textBytes+2 {
		t.Errorf("texts of %v bytes, %d in total, want %v", lengths, c.bytes, want)
	}
	large := filepath.Join(dir, "large.txt")
	if err := os.WriteFile(large, bytes.Repeat([]byte(line), 2*corpusBytes/1000+16), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err = readCorpus("large", large); err != nil || c.bytes > corpusBytes || c.bytes < corpusBytes/2 {
		t.Errorf("%d bytes, %v", c.bytes, err)
	}
	if _, err := readCorpus("none", filepath.Join(dir, "c.txt")); err == nil || !strings.Contains(err.Error(), "has no text. try: another -texts") {
		t.Error(err)
	}
}

// TestPeerWithoutTokenizers runs the real program with a Python that lacks the library.
func TestPeerWithoutTokenizers(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: python3 is not in PATH")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizers.py"), []byte("raise ImportError('there is\\nno library')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := newPeer(t.Context(), huggingFace, "python3", dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(p.tokenizers(t.Context(), "version"), "peer"); err == nil || err.Error() != "peer: ImportError: there is" {
		t.Error(err)
	}
}
