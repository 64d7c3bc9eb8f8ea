package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// script writes an executable shell script and returns its path.
func script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// fakes are programs that print figures: 1000 tokens/s for trireme, 400 for PyTorch. They append their arguments to log.
func fakes(t *testing.T, log string) (trireme, python string) {
	trireme = script(t, "trireme", `echo "trireme $*" >>`+log+`
case "$1 $2" in
"version --json") echo '{"kernels":"avx512"}' ;;
"bench step") echo '{"tokens_per_s":1000,"rss_mib":100,"first_step_s":0.5}' ;;
"bench gemm") echo '{"gflops":{"512x512x512":{"median":200},"64x64x64_t":{"median":100}},"fma_peak_gflops":250}' ;;
"bench collectives") echo '{"res":{"barrier":{"us":2},"all_reduce_1024KiB":{"busbw_GBps":6}}}' ;;
esac
`)
	python = script(t, "python3", `shift
echo "peer $* [$ATEN_CPU_CAPABILITY $OPENBLAS_CORETYPE]" >>`+log+`
case "$1" in
version) echo '{"torch":"2.9.1","instructions":"AVX512"}' ;;
step) echo 'Gloo connects'; echo '{"tokens_per_s":400,"rss_mib":400,"first_step_s":2}' ;;
gemm) echo '{"gflops":{"512x512x512":{"median":100},"64x64x64_t":{"median":80}}}' ;;
collectives) echo '{"res":{"barrier":{"us":80},"all_reduce_1024KiB":{"busbw_GBps":0.5}}}' ;;
esac
`)
	return trireme, python
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"step", "-dtypes", "float32,bfloat16", "-peer", "eager", "-pairs", "2", "gemm", "-threads", "2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.what) != 2 || o.what[0].name != "step" || o.what[1].name != "gemm" || o.pairs != 2 || !reflect.DeepEqual(o.dtypes, []string{"float32", "bfloat16"}) ||
		!reflect.DeepEqual(o.peers, []string{"eager"}) || !reflect.DeepEqual(o.threads, []string{"2"}) || !reflect.DeepEqual(o.instructions, []string{"auto"}) || o.configs != nil {
		t.Errorf("%+v", o)
	}
	var help bytes.Buffer
	if _, err := parse([]string{"-help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-python") {
		t.Error(err, help.String())
	}
	for args, want := range map[string]string{
		"":                          "no comparison given. try: go run ./bench step",
		"steps":                     `"steps" is not one of step, gemm, collectives, ranks, mpi, tokenize, checkpoint, generate`,
		"-peers x step":             "flag provided but not defined: -peers. try: -help",
		"-configs A,D step":         `-configs has "D", which is not one of A, B, C`,
		"-dtypes float16 step":      `-dtypes has "float16"`,
		"-peer jit step":            `-peer has "jit", which is not one of eager, compiled`,
		"-instructions avx step":    "-instructions has",
		"-threads 0 step":           `-threads has "0": it must be a number from 1`,
		"-threads= step":            "-threads is empty. try: -threads 1,2",
		"-pairs 0 step":             "-pairs is 0: it must be at least 1",
		"-steps 0 step":             "-steps is 0: it must be at least 1",
		"-svg x.svg gemm":           "-svg draws training steps. try: -svg FILE step",
		"-from x.json step":         "-from measures nothing",
		"-from x.json -json y.json": "-from measures nothing",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

// TestMeasure compares fake programs: their order, arguments, tables and files.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	trireme, python := fakes(t, log)
	saved, chart := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.svg")
	var out, progress bytes.Buffer
	args := []string{"-trireme", trireme, "-python", python, "-pairs", "2", "-threads", "2", "-configs", "B", "-peer", "eager,compiled", "-instructions", "auto,avx2", "-float32_matmul", "auto,high", "-json", saved, "-svg", chart, "step", "gemm", "collectives", "ranks"}
	if err := run(t.Context(), args, &out, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"; trireme with avx512, avx2; PyTorch 2.9.1 with AVX512, AVX512; 20", "`go run ./bench -trireme ",
		"### Training steps, float32, PyTorch eager\n\n| figure | trireme | PyTorch | ratio | pairs |\n|---|---|---|---|---|\n| B, 2 threads: tokens_per_s | 1000 | 400 | 2.50 | 2.50 2.50 |\n| B, 2 threads: rss_mib | 100 | 400 | 0.25 | 0.25 0.25 |\n| B, 2 threads: first_step_s | 0.5 | 2 | 0.25 | 0.25 0.25 |\n",
		"### Training steps, float32, avx2, PyTorch compiled\n",
		"### Training steps, float32, avx2 by high, PyTorch eager\n",
		"### Matrix products, float32, 1 thread, GFLOP/s\n", "| 64x64x64_t | 100 | 80 | 1.25 | 1.25 1.25 |\n\nPeak of trireme's instructions: 250 GFLOP/s.\n",
		"### Collectives, 2 processes, tcp\n", "| all_reduce_1024KiB, busbw_GBps | 6 | 0.5 | 12.00 | 12.00 12.00 |\n| barrier, us | 2 | 80 |",
		"### Two ranks over shm, float32, PyTorch eager over gloo\n", "| B, no_shard and DDP: tokens_per_s | 1000 | 400 |",
		"### Two ranks under full_shard over tcp, float32, avx2\n\n| figure | two ranks | two runs of one rank |", "| B: tokens_per_s | 1000 | 2000 | 0.50 | 0.50 0.50 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	if !strings.Contains(progress.String(), "Training steps, float32, PyTorch eager: B, 2 threads: pair 2 of 2\n") {
		t.Error(progress.String())
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	steps := "trireme bench step --config B --threads 2 --steps 5 --dtype float32 --instructions auto --float32_matmul auto --json\npeer step --threads 2 --steps 5 --dtype float32 --layers 6 --width 512 --heads 8 --ffn 1376 --vocab 8192 --positions 512 --sequences 4"
	for _, want := range []string{
		steps, steps + " --compiled", "--instructions avx2 --float32_matmul high --json", "[avx2 Haswell]", "[ SkylakeX]", "--shapes 512x512x512,64x64x64_t",
		"--nproc 2 --transport tcp --strategy no_shard --json\npeer step --threads 1", "--ranks 2 --strategy fully_shard",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	drawn, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	redrawn := filepath.Join(dir, "again.svg")
	if err := run(t.Context(), []string{"-from", saved, "-svg", redrawn}, &again, io.Discard); err != nil {
		t.Fatal(err)
	}
	if again.String() != out.String() {
		t.Errorf("from the file:\n%s", again.String())
	}
	if b, err := os.ReadFile(redrawn); err != nil || !bytes.Equal(b, drawn) {
		t.Errorf("from the file: %v\n%s", err, b)
	}
}

// TestFailures: a program that fails gives one line with what to do, after the rows that were measured.
func TestFailures(t *testing.T) {
	trireme, python := fakes(t, "/dev/null")
	for name, c := range map[string]struct{ trireme, python, want string }{
		"no torch": {trireme, script(t, "python3", "echo Traceback >&2\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1"),
			"ModuleNotFoundError: No module named 'torch'. try: -python FILE that imports torch, or no -python to install PyTorch " + torchVersion},
		"no python": {trireme, "/nonexistent/python3", "/nonexistent/python3"},
		"compiled": {trireme, script(t, "python3", "if [ $2 = version ]; then echo '{}'; else echo 'RuntimeError: compiled needs PyTorch 2.0' >&2; exit 1; fi"),
			"step: PyTorch step: RuntimeError: compiled needs PyTorch 2.0. torch.compile needs PyTorch 2.x and a C++ compiler; try: -peer eager"},
		"no JSON":    {trireme, script(t, "python3", "if [ $2 = version ]; then echo '{}'; else echo hello; fi"), `step: PyTorch step: the last line of its output is not a JSON object: "hello"`},
		"no figure":  {trireme, script(t, "python3", "echo '{}'"), "step: PyTorch: its output has no number tokens_per_s"},
		"silent":     {trireme, script(t, "python3", "if [ $2 = version ]; then echo '{}'; else exit 3; fi"), "exit status 3"},
		"trireme":    {script(t, "trireme", "if [ $1 = version ]; then echo '{}'; else echo 'no space' >&2; exit 1; fi"), python, "step: trireme bench step: no space"},
		"no trireme": {"/nonexistent/trireme", python, "/nonexistent/trireme"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), []string{"-trireme", c.trireme, "-python", c.python, "step"}, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	var out bytes.Buffer
	late := script(t, "python3", `case "$*" in *"threads 2"*) exit 1 ;; *) echo '{"tokens_per_s":1,"rss_mib":1,"first_step_s":1}' ;; esac`)
	if err := run(t.Context(), []string{"-trireme", trireme, "-python", late, "step"}, &out, io.Discard); err == nil || !strings.Contains(out.String(), "| C, 1 thread: tokens_per_s | 1000 | 1 |") {
		t.Error(err, out.String())
	}
	err := run(t.Context(), []string{"-trireme", trireme, "-python", python, "-json", "/nonexistent/r.json", "step"}, io.Discard, io.Discard)
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestInterrupted: the end of the context ends a program and its children.
func TestInterrupted(t *testing.T) {
	_, python := fakes(t, "/dev/null")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := filepath.Join(t.TempDir(), "started")
	slow := script(t, "trireme", "if [ $1 = version ]; then echo '{}'; else sleep 60 & echo >"+started+"; wait; fi")
	ended := make(chan error)
	go func() {
		ended <- run(ctx, []string{"-trireme", slow, "-python", python, "step"}, io.Discard, io.Discard)
	}()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still running")
	}
}

func TestLoad(t *testing.T) {
	for text, want := range map[string]string{
		"{":              "unexpected end of JSON input",
		`{"schema":"x"}`: `its schema is "x", not ` + schema + ". try: a file written with -json",
		`{"schema":"` + schema + `","tables":[null]}`:                                             "a table is null",
		`{"schema":"` + schema + `","tables":[{"rows":[{"figure":"f","ours":[1],"theirs":[]}]}]}`: "f: 1 and 0 runs are not pairs",
	} {
		file := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), []string{"-from", file}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestDraw(t *testing.T) {
	r := &results{Processor: processor{Name: "A<B", Cores: 2}}
	if _, err := r.draw(); err == nil {
		t.Error("no error without steps")
	}
	step := func(peer, dtype string, theirs ...float64) *table {
		t := &table{Comparison: "step", Peer: peer, DType: dtype, Instructions: "auto"}
		for i, config := range []string{"A", "B"} {
			k := []float64{1, 0.25}[i]
			w := row{Metric: "tokens_per_s", Config: config, Threads: "1"}
			for _, v := range theirs {
				w.Ours, w.Theirs = append(w.Ours, 1000*k), append(w.Theirs, v*k)
			}
			t.Rows = append(t.Rows, w, row{Metric: "rss_mib", Config: config, Threads: "1", Ours: []float64{1}, Theirs: []float64{2}})
		}
		return t
	}
	r.Tables = []*table{step("eager", "float32", 400, 500, 600), step("compiled", "float32", 800, 800, 800), {Comparison: "gemm"}}
	b, err := r.draw()
	if err != nil {
		t.Fatal(err)
	}
	bars := map[string][]string{}
	var texts []string
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
		switch e := token.(type) {
		case xml.StartElement:
			at := map[string]string{}
			for _, a := range e.Attr {
				at[a.Name.Local] = a.Value
			}
			if e.Name.Local == "rect" && at["height"] == "13" {
				bars[at["class"]] = append(bars[at["class"]], at["width"])
			}
		case xml.CharData:
			texts = append(texts, string(e))
		}
	}
	want := map[string][]string{"trireme": {"380.0", "380.0"}, "compiled": {"304.0", "304.0"}, "eager": {"190.0", "190.0"}}
	if !reflect.DeepEqual(bars, want) {
		t.Errorf("bars %v, want %v", bars, want)
	}
	all := fmt.Sprintf("%q", texts)
	for _, want := range []string{"A<B, 2 cores", "A: 4 layers, width 256, vocabulary 512, 8 x 256 tokens", "float32, 1 thread", `"500 (ratio 2.00)"`, `"200 (ratio 1.25)"`, `"1000"`} {
		if !strings.Contains(all, want) {
			t.Errorf("no text %s in %s", want, all)
		}
	}
	if !bytes.Contains(b, []byte("prefers-color-scheme:dark")) {
		t.Error("no dark style")
	}
}

func TestProcessor(t *testing.T) {
	p := parseProcessor("processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R)\n\nprocessor\t: 1\nmodel name\t: other\n")
	p.Cores = 1
	if got := p.String(); got != "Intel(R) Xeon(R) (family 6, model 207), 1 core" {
		t.Error(got)
	}
	if got := commandLine([]string{"-json", "a b.json", "it's", "step"}); got != `go run ./bench -json 'a b.json' 'it'\''s' step` {
		t.Error(got)
	}
}
