package gguf

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/device"
	"trireme/generate"
	"trireme/tensor"
	"trireme/tokenizer"
	"trireme/train"
)

// counterpart is a process with llama.cpp and its reader of files.
type counterpart struct {
	in  io.Writer
	out *bufio.Reader
}

type question struct {
	Path  string   `json:"path"`
	F32   string   `json:"f32,omitempty"`
	IDs   []int32  `json:"ids"`
	Texts []string `json:"texts"`
}

type answer struct {
	Tensors  map[string][4]any `json:"tensors"`
	Q8Same   bool              `json:"q8_same"`
	Template string            `json:"template"`
	Logits   [][]float64       `json:"logits"`
	Tokens   [][]int32         `json:"tokens"`
}

// newCounterpart starts the Python in LLAMACPP_PYTHON, which has gguf and cyllama, or skips.
func newCounterpart(t *testing.T) *counterpart {
	python := os.Getenv("LLAMACPP_PYTHON")
	if python == "" {
		t.Skip("SKIPPED: LLAMACPP_PYTHON names no Python with the packages gguf and cyllama")
	}
	c := exec.Command(python, filepath.Join("testdata", "llamacpp.py"))
	var log strings.Builder
	c.Stderr = &log
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil || t.Failed() {
			t.Logf("%v\n%s", err, log.String())
		}
	})
	return &counterpart{in, bufio.NewReader(out)}
}

func (c *counterpart) ask(t *testing.T, q question) (a answer) {
	t.Helper()
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c.in, "%s\n", b); err != nil {
		t.Fatal(err)
	}
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		t.Fatalf("%v in %.200q", err, line)
	}
	return a
}

// sampleTexts have words, numbers, spaces, contractions, other scripts and bytes.
var sampleTexts = []string{
	"Hello world", " the lazy dog's tail, isn't it? I'LL see", "12345 67 8.90 1234567", "a  b   c\n\n  d\t\te \r\n", "naïve café — Ωμέγα, Москва, 東京, 한국어",
	"🚀 rockets 👩‍👩‍👧", "func main() {\n\tfmt.Println(\"x\")\n}\n", "", " ", "   leading", "trailing   ", "CamelCase_snake-kebab",
}

// smallTokenizer trains a byte-level BPE into a directory; pattern, if not empty, replaces GPT-2's.
func smallTokenizer(t *testing.T, dir, pattern string) {
	t.Helper()
	texts := slices.Repeat(append(slices.Clone(sampleTexts), "the quick brown fox jumps over the lazy dog and the dog's tail."), 4)
	tok, err := tokenizer.Train(t.Context(), slices.Values(texts), tokenizer.TrainOptions{VocabSize: 310})
	if err == nil {
		err = tok.Save(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if pattern == "" {
		return
	}
	path := filepath.Join(dir, "tokenizer.json")
	b, err := os.ReadFile(path)
	var top map[string]any
	if err == nil {
		err = json.Unmarshal(b, &top)
	}
	if err == nil {
		top["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		}}
		b, err = json.Marshal(top)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// trainedPatterns are the patterns of the tokenizers that the test trains; GPT-2's is empty.
var trainedPatterns = map[string]string{
	"trained":              "",
	"trained with llama 3": `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"trained with qwen2":   `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
}

// logitsOf returns the logits after each prefix of ids.
func logitsOf(t *testing.T, dir string, ids []int32) [][]float64 {
	t.Helper()
	l, err := train.LoadModel(families, dir, device.DefaultConfig(), train.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out [][]float64
	for n := range ids {
		b := generate.Pass{Backend: l.Backend, Model: l.Model, Param: tensor.F32}.Logits(ids[:n+1], 0, 0, n+1)()
		row := make([]float32, len(b)/4)
		copy(tensor.AsBytes(row), b)
		var wide []float64
		for _, v := range row {
			wide = append(wide, float64(v))
		}
		out = append(out, wide)
	}
	return out
}

// distance compares logits b with a.
type distance struct {
	most, rms float64 // difference of two logits by the deviation of all: the largest, and the root of the mean square
	top       float64 // share of rows with one largest logit
	pa, pb    float64 // perplexities of the next ids
}

func distanceOf(a, b [][]float64, ids []int32) (d distance) {
	var sum, squares, n, apart float64
	for i := range a {
		for k := range a[i] {
			sum, squares, n = sum+a[i][k], squares+a[i][k]*a[i][k], n+1
			d.most, apart = max(d.most, math.Abs(a[i][k]-b[i][k])), apart+(a[i][k]-b[i][k])*(a[i][k]-b[i][k])
		}
		if slices.Index(a[i], slices.Max(a[i])) == slices.Index(b[i], slices.Max(b[i])) {
			d.top += 1 / float64(len(a))
		}
		if i+1 < len(ids) {
			d.pa += surprise(a[i], ids[i+1]) / float64(len(ids)-1)
			d.pb += surprise(b[i], ids[i+1]) / float64(len(ids)-1)
		}
	}
	deviation := math.Sqrt(squares/n - sum/n*sum/n)
	return distance{d.most / deviation, math.Sqrt(apart/n) / deviation, d.top, math.Exp(d.pa), math.Exp(d.pb)}
}

// surprise is minus the log-probability of a token.
func surprise(logits []float64, id int32) float64 {
	most, sum := slices.Max(logits), 0.0
	for _, v := range logits {
		sum += math.Exp(v - most)
	}
	return most + math.Log(sum) - logits[id]
}

// llama.cpp computes our logits from files of every type, and its reader sees our tensors. In F32 the difference is
// rounding, except for GPT-2, whose GELU llama.cpp takes from a table in float16.
func TestLlamaCpp(t *testing.T) {
	c := newCounterpart(t)
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			dir, _ := writeModel(t, config)
			smallTokenizer(t, dir, "")
			rng := rand.New(rand.NewPCG(5, 5))
			ids := make([]int32, 48)
			for i := range ids {
				ids[i] = rng.Int32N(290)
			}
			want := logitsOf(t, dir, ids)
			f32, _ := convert(t, dir, F32)
			for _, kind := range []Type{F32, F16, BF16, Q8_0} {
				path, f := convert(t, dir, kind)
				q := question{Path: path, IDs: ids, Texts: []string{}}
				if kind == Q8_0 {
					q.F32 = f32
				}
				a := c.ask(t, q)
				checkTensors(t, f, a)
				d := distanceOf(want, a.Logits, ids)
				t.Logf("%v: logits differ by %.2g of their deviation, %.2g in the root of the mean square; same top token in %.0f%%; perplexity %.3f, here %.3f", kind, d.most, d.rms, 100*d.top, d.pb, d.pa)
				bound := map[Type]float64{F32: 1e-5, F16: 2e-3, BF16: 3e-2, Q8_0: 8e-2}[kind]
				if strings.HasPrefix(name, "gpt2") {
					bound += 1e-3
				}
				if d.rms > bound || math.Abs(d.pb/d.pa-1) > bound || d.top < 0.9 {
					t.Errorf("%v: a difference above %v", kind, bound)
				}
			}
		})
	}
}

// checkTensors compares what gguf's reader sees with ours.
func checkTensors(t *testing.T, f *File, a answer) {
	t.Helper()
	if !a.Q8Same {
		t.Error("q8_0 has other bytes than by gguf's quantization")
	}
	if len(a.Tensors) != len(f.Tensors()) {
		t.Errorf("gguf's reader sees %d tensors, ours %d", len(a.Tensors), len(f.Tensors()))
	}
	for _, x := range f.Tensors() {
		v, err := f.Read(x.Name)
		if err != nil {
			t.Fatal(err)
		}
		var sum, magnitude float64
		for _, e := range v {
			sum, magnitude = sum+float64(e), magnitude+math.Abs(float64(e))
		}
		got := a.Tensors[x.Name]
		kind, _ := got[0].(string)
		s, _ := got[2].(float64)
		m, _ := got[3].(float64)
		if !strings.EqualFold(kind, x.Type.String()) || fmt.Sprint(got[1]) != fmt.Sprint(x.Shape) || math.Abs(s-sum) > 1e-6*magnitude || math.Abs(m-magnitude) > 1e-6*magnitude {
			t.Errorf("%s is %v by gguf's reader, here %v %v %v %v", x.Name, got, x.Type, x.Shape, sum, magnitude)
		}
	}
}

// llama.cpp encodes texts as we do, and finds the chat template.
func TestLlamaCppTokens(t *testing.T) {
	c := newCounterpart(t)
	shared := filepath.Join("..", "..", "..", "shared", "data", "tokenizers")
	for _, name := range []string{"trained", "trained with llama 3", "trained with qwen2", "gpt2", "qwen2.5", "torchtitan_test_tiny", "mistral"} {
		t.Run(name, func(t *testing.T) {
			from := filepath.Join(shared, name)
			if pattern, ok := trainedPatterns[name]; ok {
				from = t.TempDir()
				smallTokenizer(t, from, pattern)
			} else if !tokenizer.Exists(from) {
				t.Skipf("SKIPPED: no tokenizer in %s", from)
			}
			tok, err := tokenizer.Load(from)
			if err != nil {
				t.Fatal(err)
			}
			dir, _ := writeModel(t, strings.Replace(configs["qwen2"], `"vocab_size": 320`, fmt.Sprintf(`"vocab_size": %d`, tok.VocabSize()+3), 1))
			for _, file := range tokenizer.Files() {
				if b, err := os.ReadFile(filepath.Join(from, file)); err == nil {
					if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			path, _ := convert(t, dir, F16)
			a := c.ask(t, question{Path: path, IDs: []int32{1}, Texts: sampleTexts})
			for i, text := range sampleTexts {
				if want := tok.Encode(text, tokenizer.Options{}); !slices.Equal(a.Tokens[i], want) {
					t.Errorf("%q is %v in llama.cpp, here %v", text, a.Tokens[i], want)
				}
			}
			if got := a.Template; got != tok.ChatTemplate() {
				t.Errorf("the chat template is %.80q, want %.80q", got, tok.ChatTemplate())
			}
		})
	}
}
