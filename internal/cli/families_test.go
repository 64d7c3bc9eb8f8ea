package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/device"
	"trireme/model"
)

// TestPublishedConfigs reads configurations of published models, and compares known parameter counts.
func TestPublishedConfigs(t *testing.T) {
	shared := filepath.Join("..", "..", "..", "shared", "data")
	paths, err := filepath.Glob(filepath.Join(shared, "hfconfigs", "*.config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("%s holds no configurations", shared)
	}
	var oracle struct{ Computed map[string]int64 }
	data, err := os.ReadFile(filepath.Join(shared, "oracles", "parameter_counts.json"))
	if err == nil {
		err = json.Unmarshal(data, &oracle)
	}
	if err != nil {
		t.Fatal(err)
	}
	const head = " (BertModel with pooler)" // without the head that a task puts on it
	for name, n := range oracle.Computed {
		if bare, ok := strings.CutSuffix(name, head); ok {
			oracle.Computed[bare] = n
		}
	}
	counted := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".config.json")
		config, err := families.ReadConfig(path)
		if err == nil && config.Family.Name == "bert" {
			config, err = config.ForTask("sequence_classification")
		}
		if err != nil {
			t.Error(err)
			continue
		}
		b, err := device.Open("meta", device.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := config.Make(b, 8)
		if err != nil {
			t.Error(err)
			continue
		}
		got := model.CountParams(m)
		if config.Family.Name == "bert" {
			got -= int64(2 * (m.Info().Hidden + 1)) // the classifier
		}
		if want, ok := oracle.Computed[name]; ok {
			counted++
			if got != want {
				t.Errorf("%s has %d parameters, want %d", name, got, want)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if counted != len(oracle.Computed)-1 { // one has two names
		t.Errorf("%d of %d known numbers were compared", counted, len(oracle.Computed)-1)
	}
}
