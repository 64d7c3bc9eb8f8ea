package hub_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// python runs a program with huggingface_hub on the server and cache. Without huggingface_hub
// (PYTHONPATH may have it) the test is skipped.
func python(t *testing.T, endpoint, cache, program string, offline bool) string {
	t.Helper()
	cmd := exec.Command("python3", "-c", program)
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+endpoint, "HF_HUB_CACHE="+cache, "HF_HOME="+cache+".home", "HF_HUB_DISABLE_XET=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "HF_HUB_DISABLE_UPDATE_CHECK=1", "HF_HUB_DISABLE_TELEMETRY=1")
	if offline {
		cmd.Env = append(cmd.Env, "HF_HUB_OFFLINE=1")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func needsPython(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import huggingface_hub").CombinedOutput(); err != nil {
		t.Skipf("no huggingface_hub for python3: %v %.80s", err, out)
	}
}

const fetchModel = `
import huggingface_hub as h
patterns = ["*.json", "model*.safetensors", "*.jinja"]
print(h.snapshot_download("owner/tiny", allow_patterns=patterns))
`

// TestSameTreeAsPython: both clients write the same cache.
func TestSameTreeAsPython(t *testing.T) {
	needsPython(t)
	s, c, commit := start(t)
	s.Commit("model", "owner/tiny", model())
	theirs := t.TempDir()
	python(t, s.URL, theirs, fetchModel, false)
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	got, want := tree(t, c.Cache), tree(t, theirs)
	for _, files := range []map[string]string{got, want} {
		for name := range files {
			// Locks are optional, and .no_exist has more entries here.
			if strings.HasPrefix(name, ".locks/") || strings.Contains(name, ".no_exist/") || name == "CACHEDIR.TAG" {
				delete(files, name)
			}
		}
		delete(files, "models--owner--tiny/trees/"+commit+".json") // the same content, in another order
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("theirs and ours: %s", d)
	}
}

// TestPythonFindsOurs: offline, huggingface_hub finds our downloads.
func TestPythonFindsOurs(t *testing.T) {
	needsPython(t)
	s, c, commit := start(t)
	m, err := c.Model(t.Context(), "owner/tiny")
	if err != nil {
		t.Fatal(err)
	}
	s.Commit("dataset", "text", map[string]string{"data/train-00000-of-00001.parquet": weights, "data/test-00000-of-00001.parquet": weights + "test"})
	if _, err := c.Dataset(t.Context(), "text"); err != nil {
		t.Fatal(err)
	}
	got := python(t, s.URL, c.Cache, `
import huggingface_hub as h
from huggingface_hub.file_download import _CACHED_NO_EXIST
print(h.snapshot_download("owner/tiny", allow_patterns=["*.json", "model.safetensors"]))
print(h.hf_hub_download("owner/tiny", "model.safetensors"))
print(h.try_to_load_from_cache("owner/tiny", "config.json"))
print(h.try_to_load_from_cache("owner/tiny", "chat_template.jinja") is _CACHED_NO_EXIST)
print(h.try_to_load_from_cache("text", "data/train-00000-of-00001.parquet", repo_type="dataset") is not None)
info = h.scan_cache_dir()
print(sorted((r.repo_type, r.repo_id, r.nb_files) for r in info.repos), info.warnings)
`, true)
	want := strings.Join([]string{m.Dir, m.Dir + "/model.safetensors", m.Dir + "/config.json", "True", "True",
		"[('dataset', 'text', 1), ('model', 'owner/tiny', 4)] []"}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(m.Dir, commit) {
		t.Error(m.Dir)
	}
	// Online, it downloads no file again.
	s.Requests()
	python(t, s.URL, c.Cache, fetchModel, false)
	for _, r := range s.Requests() {
		if strings.HasPrefix(r, "GET ") && strings.Contains(r, "/resolve/") || strings.HasPrefix(r, "cdn ") {
			t.Errorf("huggingface_hub requests %s", r)
		}
	}
}

// TestWeFindPythons: offline, we find what huggingface_hub downloaded, complete or partial.
func TestWeFindPythons(t *testing.T) {
	needsPython(t)
	for name, program := range map[string]string{
		"snapshot": fetchModel,
		"files": `
import huggingface_hub as h
for name in ["config.json", "model.safetensors", "tokenizer.json"]:
    print(h.hf_hub_download("owner/tiny", name))
`,
	} {
		t.Run(name, func(t *testing.T) {
			s, c, commit := start(t)
			python(t, s.URL, c.Cache, program, false)
			s.Requests()
			c.Offline = true
			m, err := c.Model(t.Context(), "owner/tiny")
			if err != nil || m.Commit != commit {
				t.Fatalf("%v, %v", m, err)
			}
			if b, err := os.ReadFile(filepath.Join(m.Dir, "model.safetensors")); err != nil || string(b) != weights {
				t.Error(err)
			}
			c.Offline = false
			if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
				t.Fatal(err)
			}
			for _, r := range s.Requests() {
				if strings.HasPrefix(r, "cdn ") {
					t.Errorf("%s is requested again", r)
				}
			}
		})
	}
}
