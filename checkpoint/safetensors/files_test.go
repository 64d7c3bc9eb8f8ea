package safetensors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	holdsA = raw(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2)
	holdsB = raw(`{"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"c":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`, 4)
)

func TestModelInSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	b := append([]byte(nil), holdsB...)
	copy(b[len(b)-4:], "xyz!")
	write(t, filepath.Join(dir, "m-1.safetensors"), holdsA)
	write(t, filepath.Join(dir, "m-2.safetensors"), b)
	write(t, filepath.Join(dir, IndexFile), []byte(`{"metadata":{"total_size":5},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}`))
	m, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got := make([]byte, 2)
	if err := m.ReadRange("b", 1, 2, got); err != nil || string(got) != "yz" {
		t.Fatalf("b[1:3] is %q, %v", got, err)
	}
	if _, ok := m.Find("c"); ok || len(m.Tensors()) != 2 {
		t.Fatal("a tensor that the index leaves out was found")
	}
	// A single file has precedence, as in Hugging Face's readers.
	write(t, filepath.Join(dir, ModelFile), holdsA)
	one, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if len(one.Tensors()) != 1 {
		t.Fatalf("tensors are %v", one.Tensors())
	}
}

func TestHubCacheLinks(t *testing.T) {
	for _, c := range []struct{ repo, blob, shared string }{
		{"copy", "123", ""},
		{"models--owner--name", "123", ""},
		{"models--owner--name", "123", "blobs/ab/abc"}, // shared by all repositories
	} {
		cache := t.TempDir()
		repo := filepath.Join(cache, c.repo)
		blob := filepath.Join(repo, "blobs", c.blob)
		if c.shared == "" {
			write(t, blob, holdsA)
		} else {
			write(t, filepath.Join(cache, c.shared), holdsA)
			if err := os.MkdirAll(filepath.Dir(blob), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../../"+c.shared, blob); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(repo, "snapshots", "rev")
		write(t, filepath.Join(dir, IndexFile), []byte(`{"weight_map":{"a":"m.safetensors"}}`))
		if err := os.Symlink("../../blobs/"+c.blob, filepath.Join(dir, "m.safetensors")); err != nil {
			t.Fatal(err)
		}
		m, err := OpenModel(dir)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		m.Close()
	}
}

func TestInvalidIndexes(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "outside.safetensors"), holdsA)
	for _, c := range []struct{ name, index, want string }{
		{"missing", `{"weight_map":{"a":"m.safetensors","z":"gone.safetensors"}}`, "gone.safetensors is missing: model.safetensors.index.json maps 1 of 2"},
		{"elsewhere", `{"weight_map":{"b":"m.safetensors"}}`, `maps tensor "b" to m.safetensors, which does not have it`},
		{"up", `{"weight_map":{"a":"../outside.safetensors"}}`, "not a file in this directory"},
		{"absolute", `{"weight_map":{"a":"` + filepath.Join(base, "outside.safetensors") + `"}}`, "not a file in this directory"},
		{"through a link", `{"weight_map":{"a":"link.safetensors"}}`, "escapes"},
		{"directory", `{"weight_map":{"a":"sub"}}`, "is not a file"},
		{"dot", `{"weight_map":{"a":"."}}`, "not a file in this directory"},
		{"empty name", `{"weight_map":{"a":""}}`, "not a file in this directory"},
		{"twice", `{"weight_map":{"a":"m.safetensors","a":"m.safetensors"}}`, "duplicate"},
		{"number", `{"weight_map":{"a":1}}`, "not a valid index"},
		{"no map", `{"metadata":{}}`, "weight_map is missing or empty"},
		{"cut", `{"weight_map":{"a":"m.safe`, "not a valid index"},
		{"two values", `{"weight_map":{"a":"m.safetensors"}} {}`, "not a valid index"},
		{"lying shard", `{"weight_map":{"a":"bad.safetensors"}}`, "bad.safetensors"},
	} {
		dir := filepath.Join(base, c.name)
		write(t, filepath.Join(dir, "m.safetensors"), holdsA)
		write(t, filepath.Join(dir, "bad.safetensors"), holdsA[:len(holdsA)-1])
		write(t, filepath.Join(dir, "sub", "x"), nil)
		if err := os.Symlink("../outside.safetensors", filepath.Join(dir, "link.safetensors")); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, IndexFile), []byte(c.index))
		m, err := OpenModel(dir)
		if err == nil {
			m.Close()
			t.Errorf("%s: was opened", c.name)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %q, without %q", c.name, err, c.want)
		}
	}
	if _, err := OpenModel(filepath.Join(base, "up", "sub")); err == nil || !strings.Contains(err.Error(), "has neither") {
		t.Errorf("a directory without a model: %v", err)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":5},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ws, err := parseIndex(b)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		for _, w := range ws {
			if !filepath.IsLocal(w.file) {
				t.Fatalf("%q leaves the directory", w.file)
			}
		}
	})
}
