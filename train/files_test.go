package train

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"trireme/data"
	"trireme/model"
)

// Fingerprints missing from old checkpoints are not compared.
func TestOldCheckpointInputs(t *testing.T) {
	r := &Run{}
	now := data.Fingerprint{Train: "a", Eval: "b", Tokenizer: "c"}
	if notes, err := r.checkInputs("step-1", data.Fingerprint{}, now); err != nil || len(notes) > 0 {
		t.Errorf("%q, %v", notes, err)
	}
	if _, err := r.checkInputs("step-1", data.Fingerprint{Tokenizer: "d"}, now); err == nil {
		t.Error("another tokenizer is not refused")
	}
}

// generation_config.json has the special token ids of config.json.
func TestGenerationConfig(t *testing.T) {
	f, dir := modelFiles{info: model.Info{Task: model.Causal}}, t.TempDir()
	config := map[string]json.RawMessage{"eos_token_id": json.RawMessage("2"), "pad_token_id": json.RawMessage("null"), "vocab_size": json.RawMessage("9")}
	if err := f.writeGeneration(dir, config); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "generation_config.json"))
	if want := "{\n  \"_from_model_config\": true,\n  \"eos_token_id\": 2\n}\n"; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
	f.info.Task = model.Masked
	other := t.TempDir()
	if err := f.writeGeneration(other, config); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(other); len(entries) > 0 {
		t.Errorf("a masked model has %v", entries)
	}
}
