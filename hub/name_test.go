package hub

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	for s, want := range map[string]Name{
		"bert-base-uncased": {ID: "bert-base-uncased"}, "gpt2": {ID: "gpt2"},
		"Qwen/Qwen2.5-0.5B": {ID: "Qwen/Qwen2.5-0.5B"}, "a/b@v1.0": {ID: "a/b", Revision: "v1.0"},
		"a/b@refs/pr/1": {ID: "a/b", Revision: "refs/pr/1"}, "_a/b_": {ID: "_a/b_"},
	} {
		if got, ok := ParseModel(s); !ok || got != want || got.String() != s {
			t.Errorf("%s: %+v, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", ".", "..", "./a", "../a", "/a/b", "a/", "a//b", "a/b/c", "~/a", "a b", "a/b.git", "a--b", "a..b", "-a", "a.", "model.safetensors", "run/config.json",
		"a/b@", "a/b@../x", "a/b@x..y", "a@b@c\n", "ä/b", "a\\b", "a/b@x y", strings.Repeat("a", 97), "a:b", "*.jsonl", "@main",
	} {
		if n, ok := ParseModel(s); ok {
			t.Errorf("%s is accepted as a name: %+v", s, n)
		}
	}
	for s, want := range map[string]Name{
		"openai/gsm8k/main": {ID: "openai/gsm8k", Path: "main"}, "a/b/data/train-*.parquet@v1": {ID: "a/b", Path: "data/train-*.parquet", Revision: "v1"},
		"a/b/c.jsonl@main": {ID: "a/b", Path: "c.jsonl", Revision: "main"}, "a/b/default@refs/convert/parquet": {ID: "a/b", Path: "default", Revision: "refs/convert/parquet"}, "squad": {ID: "squad"},
	} {
		if got, ok := ParseDataset(s); !ok || got != want || got.String() != s {
			t.Errorf("%s: %+v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"train.jsonl", "data/train.jsonl", "data/train.jsonl.gz", "*.jsonl", "a/*.txt", "a/b/c.jsonl", "a/b/data/train-*.parquet", "a/b/c.txt.gz", "a/b/../c", "a/b/c/", "a/b/[", "a/b//c"} {
		if n, ok := ParseDataset(s); ok {
			t.Errorf("%s is accepted as a name: %+v", s, n)
		}
	}
}

func TestFromEnv(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"hf/token": "hf_file\n", "elsewhere": " hf_elsewhere ", "bad": "hf_1\nhf_2"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		env                    map[string]string
		cache, token, endpoint string
		offline                bool
		err                    string
	}{
		{env: map[string]string{"HOME": "/home/u"}, cache: "/home/u/.cache/huggingface/hub"},
		{env: map[string]string{"HOME": "/home/u", "XDG_CACHE_HOME": "/c"}, cache: "/c/huggingface/hub"},
		{env: map[string]string{"HOME": "/home/u", "XDG_CACHE_HOME": "/c", "HF_HOME": "~/hf"}, cache: "/home/u/hf/hub"},
		{env: map[string]string{"HOME": "/home/u", "HF_HOME": "$DISK/hf", "DISK": "/mnt"}, cache: "/mnt/hf/hub"},
		{env: map[string]string{"HF_HOME": "/hf", "HF_HUB_CACHE": "/cache"}, cache: "/cache"},
		{env: map[string]string{"HF_HOME": dir + "/hf"}, cache: dir + "/hf/hub", token: "hf_file"},
		{env: map[string]string{"HF_HOME": dir + "/hf", "HF_TOKEN": "hf_env"}, cache: dir + "/hf/hub", token: "hf_env"},
		{env: map[string]string{"HF_HOME": dir + "/hf", "HF_TOKEN_PATH": dir + "/elsewhere"}, cache: dir + "/hf/hub", token: "hf_elsewhere"},
		{env: map[string]string{"HF_HOME": "/hf", "HF_HUB_OFFLINE": "1"}, cache: "/hf/hub", offline: true},
		{env: map[string]string{"HF_HOME": "/hf", "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "yes"}, cache: "/hf/hub", offline: true},
		{env: map[string]string{"HF_HOME": "/hf", "HF_ENDPOINT": "https://mirror/hub/"}, cache: "/hf/hub", endpoint: "https://mirror/hub/"},
		{env: map[string]string{"HF_HOME": "/hf", "HF_ENDPOINT": "mirror"}, err: "HF_ENDPOINT is not a server URL: mirror"},
		{env: map[string]string{"HF_HOME": "/hf", "HF_TOKEN_PATH": dir + "/bad"}, err: "invalid characters"},
		{env: map[string]string{"HF_HOME": "/hf", "HF_TOKEN_PATH": dir}, err: "the token: "},
	} {
		c, err := FromEnv(func(name string) (string, bool) {
			v, ok := x.env[name]
			return v, ok
		})
		if x.err != "" {
			if err == nil || !strings.Contains(err.Error(), x.err) || strings.Contains(err.Error(), "hf_1") {
				t.Errorf("%v: %v", x.env, err)
			}
			continue
		}
		if err != nil || c.Cache != x.cache || c.Token != x.token || c.Endpoint != x.endpoint || c.Offline != x.offline {
			t.Errorf("%v: %+v, %v", x.env, c, err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	c := Client{Cache: t.TempDir(), free: func() int64 { return 100 }}
	s, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	p := cachedRepo{cache: c.Cache, repo: repo{kind: "model", id: "a/b"}}
	l := listingOf("x")
	l.files[0].size, l.files[0].git = 1<<40, strings.Repeat("b", 40)
	err = s.fetchAll(t.Context(), p, Name{ID: "a/b"}, l, []string{"x"}, false)
	if err == nil || !strings.Contains(err.Error(), "model a/b needs 1.0 TiB more in "+c.Cache+", which has 100 B free. try: HF_HOME=DIR on another disk") {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	c := Client{Endpoint: "https://mirror:8443/hub/", Cache: "x"}
	s, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	on := s.from.(*server)
	for want, got := range map[string]string{
		"https://mirror:8443/hub/api/models/a/b/revision/refs%2Fpr%2F1?blobs=true": on.list(repo{kind: "model", id: "a/b"}, "refs/pr/1").String(),
		"https://mirror:8443/hub/api/datasets/squad/revision/main?blobs=true":      on.list(repo{kind: "dataset", id: "squad"}, "main").String(),
		"https://mirror:8443/hub/a/b/resolve/c/d/100%25%3F%20%23.txt":              on.resolve(repo{kind: "model", id: "a/b"}, "c", "d/100%? #.txt").String(),
		"https://mirror:8443/hub/datasets/a/b/resolve/c/x.csv":                     on.resolve(repo{kind: "dataset", id: "a/b"}, "c", "x.csv").String(),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTrusted(t *testing.T) {
	for endpoint, others := range map[string]map[string]bool{
		"https://hub.example": {"https://hub.example/x": true, "https://HUB.example:443/": true, "http://hub.example/": false, "https://hub.example:8443/": false, "https://cdn.hub.example/": false, "https://hub.example.org/": false},
		"http://hub:8080/p":   {"http://hub:8080/": true, "http://hub/": false, "https://hub:8080/": false},
	} {
		s, err := Client{Endpoint: endpoint, Cache: "x"}.open()
		if err != nil {
			t.Fatal(err)
		}
		for address, want := range others {
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.from.(*server).trusted(u); got != want {
				t.Errorf("%s with %s: %v", endpoint, address, got)
			}
		}
	}
}

func TestReadable(t *testing.T) {
	for s, want := range map[string]string{
		"plain": "plain", "\x1b[31mred\x07": "[31mred", " a\r\n\tb ": "a b", "\u009b2J": "2J", "\xff": "?", "": "", strings.Repeat("é", 300): strings.Repeat("é", 200) + "...",
	} {
		if got := readable(s); got != want {
			t.Errorf("%q is %q, want %q", s, got, want)
		}
	}
}

func TestPause(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, x := range []struct {
		header, value string
		want          time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second}, {"Retry-After", "Fri, 02 Jan 2026 03:05:05 GMT", time.Minute}, {"Retry-After", "Fri, 02 Jan 2026 03:00:05 GMT", 0},
		{"Retry-After", "-3", 0}, {"Retry-After", "soon", 0}, {"Retry-After", "99999999999999999999", 0},
		{"RateLimit", `"api";r=0;t=55`, 55 * time.Second}, {"RateLimit", `"api";r=12;t=55`, 0}, {"RateLimit", "?", 0},
	} {
		h := http.Header{}
		h.Set(x.header, x.value)
		if got := pause(h, now); got != x.want {
			t.Errorf("%s: %s is %s, want %s", x.header, x.value, got, x.want)
		}
	}
}
