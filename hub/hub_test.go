package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"trireme/hub"
	"trireme/hub/hubtest"
)

// weights is an LFS file.
var weights = strings.Repeat("weights ", 10_000)

// model is the files of a small model.
func model() map[string]string {
	return map[string]string{
		"config.json": `{"model_type": "llama"}`, "model.safetensors": weights, "tokenizer.json": `{"model": {}}`, "generation_config.json": `{}`,
		"pytorch_model.bin": "a pickle", "consolidated.safetensors": weights, "README.md": "# A model", ".gitattributes": "*", "onnx/model.onnx": "x",
	}
}

// start returns a server with a model, and a client with an empty cache.
func start(t *testing.T) (*hubtest.Server, hub.Client, string) {
	t.Helper()
	s := hubtest.New()
	t.Cleanup(s.Close)
	commit := s.Commit("model", "owner/tiny", model())
	return s, hub.Client{Endpoint: s.URL, Cache: t.TempDir(), Backoff: time.Millisecond}, commit
}

// together runs f as n clients at the same time, which all succeed.
func together(t *testing.T, n int, f func() error) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// tree lists a folder: links with their targets, files with their sizes.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type()&fs.ModeSymlink != 0 {
			out[name], err = os.Readlink(path)
			out[name] = "-> " + out[name]
			return err
		}
		info, err := d.Info()
		out[name] = fmt.Sprint(info.Size())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLayout(t *testing.T) {
	s, c, commit := start(t)
	m, err := c.Model(t.Context(), "owner/tiny")
	if err != nil {
		t.Fatal(err)
	}
	if m.Commit != commit || m.Dir != filepath.Join(c.Cache, "models--owner--tiny/snapshots", commit) || m.Pinned() != "owner/tiny@"+commit {
		t.Errorf("commit %s, dir %s, pinned %s", m.Commit, m.Dir, m.Pinned())
	}
	files := model()
	want := map[string]string{"models--owner--tiny/refs/main": "40"}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "generation_config.json"} {
		tag := hubtest.ETag(files[name])
		want["models--owner--tiny/blobs/"+tag] = fmt.Sprint(len(files[name]))
		want["models--owner--tiny/snapshots/"+commit+"/"+name] = "-> ../../blobs/" + tag
		want[".locks/models--owner--tiny/"+tag+".lock"] = "0"
		if b, err := os.ReadFile(filepath.Join(m.Dir, name)); err != nil || string(b) != files[name] {
			t.Errorf("%s: %.20q, %v", name, b, err)
		}
	}
	got := tree(t, c.Cache)
	for name := range got {
		if strings.Contains(name, "/.no_exist/"+commit+"/") || strings.HasSuffix(name, "trees/"+commit+".json") {
			delete(got, name)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := os.Stat(filepath.Join(c.Cache, "models--owner--tiny/.no_exist", commit, "vocab.txt")); err != nil {
		t.Error(err)
	}

	s.Requests()
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	if r := s.Requests(); len(r) != 1 {
		t.Errorf("the second call requests %q", r)
	}
}

// TestPinned: a cached commit needs no server, except for missing files.
func TestPinned(t *testing.T) {
	s, c, commit := start(t)
	m, err := c.Model(t.Context(), "owner/tiny")
	if err != nil {
		t.Fatal(err)
	}
	s.Requests()
	if again, err := c.Model(t.Context(), m.Pinned()); err != nil || again.Dir != m.Dir || again.Pinned() != m.Pinned() {
		t.Errorf("%v, %v", again, err)
	}
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("requests %q", r)
	}
	if err := os.Remove(filepath.Join(m.Dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(c.Cache, "models--owner--tiny/blobs", hubtest.ETag(model()["config.json"]))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Model(t.Context(), m.Pinned()); err != nil {
		t.Error(err)
	}
	if r := s.Requests(); !slices.Equal(r, []string{"GET /owner/tiny/resolve/" + commit + "/config.json"}) {
		t.Errorf("requests %q", r)
	}
}

func TestFilesInFolders(t *testing.T) {
	s, c, _ := start(t)
	commit := s.Commit("dataset", "owner/text", map[string]string{"en/data/train.jsonl": weights, "README.md": "x"})
	d, err := c.Dataset(t.Context(), "owner/text", "train")
	if err != nil {
		t.Fatal(err)
	}
	link, err := os.Readlink(filepath.Join(c.Cache, "datasets--owner--text/snapshots", commit, "en/data/train.jsonl"))
	if want := "../../../../blobs/" + hubtest.ETag(weights); err != nil || link != want {
		t.Errorf("link %s, want %s; %v", link, want, err)
	}
	if b, err := os.ReadFile(filepath.Join(d.Dir, d.Files[0])); err != nil || string(b) != weights {
		t.Errorf("%v", err)
	}
}

func TestListingsWithoutBlobs(t *testing.T) {
	for _, resolves := range []bool{false, true} {
		s, c, _ := start(t)
		s.NoBlobs, s.RedirectSmall = true, resolves
		m, err := c.Model(t.Context(), "owner/tiny")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(s.Requests(), func(r string) bool { return strings.HasPrefix(r, "HEAD ") }) {
			t.Error("no HEAD")
		}
		if b, err := os.ReadFile(filepath.Join(m.Dir, "model.safetensors")); err != nil || string(b) != weights {
			t.Error(err)
		}
		c.Offline = true
		if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
			t.Error(err)
		}
	}
}

func TestShards(t *testing.T) {
	s, c, _ := start(t)
	files := model()
	delete(files, "model.safetensors")
	files["model-00001-of-00002.safetensors"], files["model-00002-of-00002.safetensors"] = weights+"1", weights+"2"
	files["model.safetensors.index.json"] = `{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`
	s.Commit("model", "sharded", files)
	m, err := c.Model(t.Context(), "sharded")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"config.json", "generation_config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json"}
	if d := cmp.Diff(want, m.Files); d != "" {
		t.Error(d)
	}
	// Without the file list, an offline cache detects a missing shard.
	if err := os.RemoveAll(filepath.Join(c.Cache, "models--sharded/trees")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(m.Dir, "model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	c.Offline = true
	_, err = c.Model(t.Context(), "sharded")
	wantError(t, err, hub.ErrNotFound, "lacks 1 of 6 files of model sharded, such as model-00002-of-00002.safetensors")

	for index, want := range map[string]string{
		`{`: "not JSON", `{}`: "it names 0 files", `{"weight_map": {"a": "../../etc/passwd"}}`: `it names "../../etc/passwd"`,
		`{"weight_map": {"a": "model-9.safetensors"}}`: "has no file model-9.safetensors",
	} {
		files["model.safetensors.index.json"] = index
		s.Commit("model", "sharded", files)
		c.Offline = false
		_, err := c.Model(t.Context(), "sharded")
		wantError(t, err, nil, want)
	}
}

// wantError checks an error's kind and text.
func wantError(t *testing.T, err, kind error, text string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("no error, want one with %q", text)
	case kind != nil && !errors.Is(err, kind):
		t.Errorf("%v: not %q", err, kind)
	case !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n"):
		t.Errorf("%q does not contain %q", err, text)
	}
}

func TestRefused(t *testing.T) {
	s, c, commit := start(t)
	s.Commit("model", "owner/gated", model())
	s.Protect("model", "owner/gated", "hf_right", true)
	s.Commit("model", "owner/private", model())
	s.Protect("model", "owner/private", "hf_right", false)
	for _, x := range []struct {
		name, token string
		kind        error
		text        string
	}{
		{"owner/none", "", hub.ErrAuth, "has no model owner/none, or it is private and needs a token"},
		{"owner/none", "hf_right", hub.ErrNotFound, "has no model owner/none, or it is private and this token has no access"},
		{"owner/gated", "", hub.ErrAuth, "model owner/gated at " + s.URL + " is gated: access must be requested"},
		{"owner/gated", "hf_right", nil, ""},
		{"owner/private", "", hub.ErrAuth, "try: HF_TOKEN=hf_..."},
		{"owner/private", "hf_wrong", hub.ErrAuth, "rejects the token for model owner/private (server: Invalid credentials"},
		{"owner/private", "hf_right", nil, ""},
		{"owner/tiny@v9", "", hub.ErrNotFound, "model owner/tiny at " + s.URL + " has no revision v9"},
		{"owner/tiny@" + commit, "", nil, ""},
		{"./tiny", "", hub.ErrNotFound, "./tiny is not a name of a model"},
	} {
		c.Token, c.Cache = x.token, t.TempDir()
		_, err := c.Model(t.Context(), x.name)
		if x.text == "" {
			if err != nil {
				t.Errorf("%s: %v", x.name, err)
			}
			continue
		}
		wantError(t, err, x.kind, x.text)
	}
	_, err := c.Dataset(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrAuth, "has no data set owner/tiny, or it is private and needs a token")
}

func TestNotAModel(t *testing.T) {
	s, c, _ := start(t)
	for want, files := range map[string]map[string]string{
		"has no model.safetensors: only safetensors weights are supported; it has pytorch_model.bin. try: a repository": {"config.json": "{}", "pytorch_model.bin": "x"},
		"has no config.json: not a transformers model; it has adapter_config.json":                                      {"adapter_config.json": "{}", "adapter_model.safetensors": "x"},
		"not a valid path":       {"config.json": "{}", "../../../.ssh/authorized_keys": "x"},
		`it lists "/etc/passwd"`: {"config.json": "{}", "/etc/passwd": "x"},
	} {
		s.Commit("model", "owner/odd", files)
		_, err := c.Model(t.Context(), "owner/odd")
		wantError(t, err, nil, want)
	}
	s.Commit("model", "owner/odd", map[string]string{"config.json": "{}", "model.safetensors": weights})
	_, err := c.Tokenizer(t.Context(), "owner/odd")
	wantError(t, err, hub.ErrNotFound, "has no tokenizer.json: it has no tokenizer files")
	m, err := c.Config(t.Context(), "owner/odd")
	if err != nil || !slices.Equal(m.Files, []string{"config.json"}) {
		t.Errorf("%v, %v", m, err)
	}
	m, err = c.Tokenizer(t.Context(), "owner/tiny")
	if err != nil || !slices.Equal(m.Files, []string{"config.json", "tokenizer.json"}) {
		t.Errorf("%v, %v", m, err)
	}
}

func TestRevisions(t *testing.T) {
	s, c, first := start(t)
	s.Ref("model", "owner/tiny", "refs/pr/3", first)
	second := s.Commit("model", "owner/tiny", map[string]string{"config.json": "{}", "model.safetensors": weights})
	for rev, commit := range map[string]string{"": second, "@main": second, "@refs/pr/3": first, "@" + first: first} {
		m, err := c.Model(t.Context(), "owner/tiny"+rev)
		if err != nil || m.Commit != commit {
			t.Errorf("%q: %v, %v", rev, m, err)
		}
	}
	b, err := os.ReadFile(filepath.Join(c.Cache, "models--owner--tiny/refs/refs/pr/3"))
	if err != nil || string(b) != first {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(c.Cache, "models--owner--tiny/refs", first)); err == nil {
		t.Error("a commit has a reference")
	}
	s.Ref("model", "owner/tiny", "refs/pr/3", "") // it is gone
	_, err = c.Model(t.Context(), "owner/tiny@refs/pr/3")
	wantError(t, err, hub.ErrNotFound, "has no revision refs/pr/3")
	c.Offline = true
	if m, err := c.Model(t.Context(), "owner/tiny@refs/pr/3"); err != nil || m.Commit != first {
		t.Errorf("%v, %v", m, err)
	}
}

func TestMoved(t *testing.T) {
	s, c, commit := start(t)
	s.Rename("model", "owner/tiny", "company/tiny")
	s.Protect("model", "company/tiny", "hf_right", false)
	c.Token = "hf_right"
	m, err := c.Model(t.Context(), "owner/tiny")
	if err != nil || m.Commit != commit || !strings.Contains(m.Dir, "models--owner--tiny") {
		t.Errorf("%v, %v", m, err)
	}
}

func TestOffline(t *testing.T) {
	s, c, commit := start(t)
	c.Offline = true
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrNotFound, "the hub is disabled (HF_HUB_OFFLINE), and the cache "+c.Cache+" has no model owner/tiny at main. try: a local path, or HF_HUB_OFFLINE=0 to download from ")
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("offline requests: %q", r)
	}
	c.Offline = false
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	// An incomplete new commit does not hide a complete one.
	newer := model()
	newer["model.safetensors"] = weights + "newer"
	s.Commit("model", "owner/tiny", newer)
	s.Inject(hubtest.Status(500, "/"+hubtest.ETag(newer["model.safetensors"])))
	if _, err := c.Model(t.Context(), "owner/tiny"); !errors.Is(err, hub.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	c.Offline = true
	if m, err := c.Model(t.Context(), "owner/tiny"); err != nil || m.Commit != commit {
		t.Errorf("%v, %v", m, err)
	}
	// Some files are optional; others change the result.
	snapshot := filepath.Join(c.Cache, "models--owner--tiny/snapshots", commit)
	if err := os.Remove(filepath.Join(snapshot, "generation_config.json")); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Model(t.Context(), "owner/tiny"); err != nil || slices.Contains(m.Files, "generation_config.json") {
		t.Errorf("%v, %v", m, err)
	}
	if err := os.Truncate(filepath.Join(c.Cache, "models--owner--tiny/blobs", hubtest.ETag(weights)), 9); err != nil {
		t.Fatal(err)
	}
	_, err = c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrNotFound, "such as model.safetensors")
}

func TestFallsBackToTheCache(t *testing.T) {
	s, c, commit := start(t)
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	c.Progress = &said
	s.Inject(hubtest.Status(503, "/api/"))
	m, err := c.Model(t.Context(), "owner/tiny")
	if err != nil || m.Commit != commit {
		t.Errorf("%v, %v", m, err)
	}
	if strings.Count(said.String(), "warning: ") != 1 || !strings.Contains(said.String(), "returned 503 Service Unavailable; using model owner/tiny of commit "+commit+" from the cache\n") {
		t.Errorf("printed %q", said.String())
	}
	s.Close()
	said.Reset()
	if _, err = c.Model(t.Context(), "owner/tiny"); err != nil || !strings.Contains(said.String(), "warning: "+s.URL+" cannot be reached: ") {
		t.Errorf("%v, %q", err, said.String())
	}
	_, err = c.Model(t.Context(), "owner/other")
	wantError(t, err, hub.ErrUnreachable, "and the cache "+c.Cache+" has no model owner/other at main")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Model(ctx, "owner/tiny"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
