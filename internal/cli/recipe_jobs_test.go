package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJobsAreTheExamples checks that each example has a job with the command in examples/README.md.
func TestJobsAreTheExamples(t *testing.T) {
	entries, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join("../../examples", e.Name()))
		}
	}
	jobs := map[string]recipeJob{}
	for _, j := range recipeJobs {
		jobs[j.Name] = j
	}
	var shown strings.Builder
	for _, name := range append([]string{"../../examples/README.md"}, dirs...) {
		if filepath.Ext(name) == "" {
			name = filepath.Join(name, "README.md")
		}
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		shown.Write(b)
	}
	text := strings.Join(strings.Fields(strings.NewReplacer("\\\n", " ", "go run ./cmd/trireme", "trireme").Replace(shown.String())), " ")
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if _, ok := jobs[name]; !ok && name != "data" {
			t.Errorf("examples/%s is in no list", name)
		}
	}
	for _, j := range recipeJobs[1:] {
		if !strings.Contains(text, j.Command) {
			t.Errorf("no README of the examples has\n%s", j.Command)
		}
		if _, err := os.Stat("../../examples/" + j.Name); err != nil {
			t.Error(err)
		}
	}
}
