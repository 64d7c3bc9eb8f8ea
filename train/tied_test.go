package train

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/checkpoint/safetensors"
	"trireme/device"
	"trireme/model"
	"trireme/model/bert"
	"trireme/tensor"
)

// A stored copy of a tied head equals the embedding, or is an error.
func TestCopiesOfTiedTensors(t *testing.T) {
	from := filepath.Join("testdata", "golden", "bert-padding", "model")
	config, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := safetensors.OpenModel(from)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for _, c := range []struct {
		of, copy string
		change   bool
	}{
		{"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", false},
		{"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", true},
		{"cls.predictions.bias", "cls.predictions.decoder.bias", false},
		{"cls.predictions.bias", "cls.predictions.decoder.bias", true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
			t.Fatal(err)
		}
		writeWithCopy(t, filepath.Join(dir, safetensors.ModelFile), files, c.of, c.copy, c.change)
		m, err := LoadModel(model.Registry{bert.Family}, dir, device.Config{Name: "cpu", Threads: 1}, Float32)
		if err == nil {
			m.Close()
		}
		if want := "ties " + c.copy + " to " + c.of + ", but their values differ. try: \"tie_word_embeddings\": false"; c.change != (err != nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// writeWithCopy writes the tensors of files and a copy of one, optionally with another last element.
func writeWithCopy(t *testing.T, path string, files *safetensors.Files, of, copy string, change bool) {
	t.Helper()
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, data := map[string]entry{}, []byte{}
	add := func(name, from string) {
		info, _ := files.Find(from)
		b := make([]byte, 4*info.Elems())
		if err := files.ReadAs(from, tensor.F32, 0, info.Elems(), b); err != nil {
			t.Fatal(err)
		}
		header[name] = entry{"F32", info.Shape, [2]int{len(data), len(data) + len(b)}}
		data = append(data, b...)
	}
	for _, info := range files.Tensors() {
		add(info.Name, info.Name)
	}
	if add(copy, of); change {
		data[len(data)-3] ^= 1
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out := append([]byte{byte(len(text)), byte(len(text) >> 8), byte(len(text) >> 16), 0, 0, 0, 0, 0}, text...)
	if err := os.WriteFile(path, append(out, data...), 0o644); err != nil {
		t.Fatal(err)
	}
}
