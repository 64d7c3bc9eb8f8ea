package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/device"
	"trireme/model"
	"trireme/model/llama"
	"trireme/nn"
	"trireme/tensor"
	"trireme/train"
)

// TestGenerate compares fake programs on a model that needs files for llama.cpp.
func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	trireme := script(t, "trireme", `echo "trireme $*" >>`+log+`
case "$1 $2" in
"version --json") echo '{"kernels":"amx"}' ;;
"bench generate") echo '{"prompt_tokens_per_s":200,"tokens_per_s":12,"rss_mib":1000,"read_share":0.9,"tokens":[5,6,7]}' ;;
esac
`)
	python := script(t, "python3", `echo "$*" | sed 's|.*/||' >>`+log+`
case "$2" in
version) echo '{"torch":"2.9.1","instructions":"AVX512","cyllama":"0.2"}' ;;
generate) echo '{"prompt_tokens_per_s":100,"tokens_per_s":6,"rss_mib":2000,"tokens":[5,6,8]}' ;;
esac
`)
	var out bytes.Buffer
	args := []string{"-trireme", trireme, "-python", python, "-pairs", "2", "-threads", "2", "-weights", "bfloat16,int8", "-cache", "int8", "-model", dir, "generate"}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### Generation, 64 tokens after 512, cache in int8, transformers\n\n| figure | trireme | transformers | ratio | pairs |\n|---|---|---|---|---|\n| bfloat16, 2 threads: prompt_tokens_per_s | 200 | 100 | 2.00 | 2.00 2.00 |\n| bfloat16, 2 threads: tokens_per_s | 12 | 6 | 2.00 | 2.00 2.00 |\n| bfloat16, 2 threads: rss_mib | 1000 | 2000 | 0.50 | 0.50 0.50 |\n\nbfloat16, 2 threads: a plain read of the weights takes 0.90 of trireme's time of a token; the first 2 of 64 tokens are the same.\n",
		"### Generation, 64 tokens after 512, cache in int8, llama.cpp of cyllama 0.2\n", "| int8, 2 threads: tokens_per_s | 12 | 6 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"trireme convert --to gguf --dtype q8_0 " + dir + " ", "trireme bench generate --model " + dir + " --dtype int8 --threads 2 --prompt_tokens 512 --new_tokens 64 --cache int8 --json\n",
		"model.gguf --threads 2 --prompt_tokens 512 --new_tokens 64\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestWriteModel: generation loads what generate writes, with the network's initial values.
func TestWriteModel(t *testing.T) {
	dir := t.TempDir()
	config := strings.NewReplacer("151936", "300", "896", "56", "4864", "64", `"num_hidden_layers": 24`, `"num_hidden_layers": 2`).Replace(qwenConfig)
	size, err := writeModel(dir, []byte(config), normal)
	if err != nil || size < 2*300*56 {
		t.Fatal(size, err)
	}
	m, err := train.LoadModel(model.Registry{llama.Family}, dir, device.DefaultConfig(), train.Float32)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 2<<12)
	value := func(i int) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16))
	}
	for kind, want := range map[nn.InitKind]float64{nn.Zeros: 0, nn.Ones: 1, nn.Normal: 0.02} {
		normal(data, &nn.Param{Shape: tensor.Shape{1 << 12}, Init: nn.Init{Kind: kind, Std: 0.02}}, 1)
		var squares float64
		for i := range 1 << 12 {
			squares += value(i) * value(i)
		}
		if got := math.Sqrt(squares / (1 << 12)); math.Abs(got-want) > 0.05*want {
			t.Errorf("kind %d: root mean square %v, want %v", kind, got, want)
		}
	}
}
