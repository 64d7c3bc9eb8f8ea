package hub

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzListing: valid listings stay within the repository's folder.
func FuzzListing(f *testing.F) {
	sha := strings.Repeat("0123456789", 4)
	f.Add([]byte(`{"sha": "` + sha + `", "siblings": [{"rfilename": "a/b.json", "size": 3, "blobId": "` + sha + `"}]}`))
	f.Add([]byte(`{"sha": "` + sha + `", "siblings": [{"rfilename": "w", "lfs": {"sha256": "` + strings.Repeat("ab", 32) + `", "size": 9}}]}`))
	f.Add([]byte(`{"sha": "` + sha + `", "siblings": [{"rfilename": "../x"}, {"rfilename": "", "size": -2}]}`))
	f.Add([]byte(`{"format_version": 1, "files": {"a": {"size": 1, "blob_id": "` + sha + `"}, "b": {"lfs_size": 1e30}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (*listing, error){parseListing, func(b []byte) (*listing, error) { return parseTree(sha, b) }} {
			l, err := parse(b)
			if err != nil {
				continue
			}
			if !isCommit(l.commit) {
				t.Errorf("commit %q", l.commit)
			}
			for _, file := range l.files {
				if !filepath.IsLocal(file.name) || strings.ContainsAny(file.name, "\x00\n") || file.size < -1 || file.size > maxFile || strings.ContainsAny(file.etag(), "/.") {
					t.Errorf("%+v", file)
				}
			}
			if text, ok := formatTree(l); ok {
				again, err := parseTree(l.commit, text)
				if err != nil || len(again.files) != len(l.files) {
					t.Errorf("%v: %s", err, text)
				}
			}
		}
	})
}

// FuzzIndex: shards are within the repository.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata": {"total_size": 1}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "x/../y"}}`))
	f.Add([]byte(`{"weight_map": {"a": "/etc/passwd"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		shards, err := parseIndex(b)
		for _, name := range shards {
			if err != nil || !filepath.IsLocal(name) {
				t.Errorf("%q, %v", name, err)
			}
		}
	})
}

// FuzzName: names round-trip and stay within the cache.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a/b@main", "a/b/c/*.json@refs/pr/1", "gpt2", "a/b@../../x", "a--b", "../a", "a/b@x@y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := ParseDataset(s)
		if !ok {
			return
		}
		p := cachedRepo{cache: "cache", repo: repo{kind: "dataset", id: n.ID}}
		if n.String() != s || !filepath.IsLocal(p.dir()) || strings.Count(p.dir(), "/") != 1 {
			t.Errorf("%q: %+v, %s", s, n, p.dir())
		}
		if ref := filepath.FromSlash(n.revision()); !filepath.IsLocal(ref) {
			t.Errorf("%q: revision %s", s, ref)
		}
	})
}

// FuzzRef: the content of a ref is a commit or ignored.
func FuzzRef(f *testing.F) {
	f.Add([]byte(strings.Repeat("0123456789", 4) + "\n"))
	f.Add([]byte("../../../etc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := cachedRepo{cache: t.TempDir(), repo: repo{kind: "model", id: "a/b"}}
		if err := replace(p.dir("refs", "main"), b); err != nil {
			t.Fatal(err)
		}
		if c := p.readRef("main"); c != "" && !isCommit(c) {
			t.Errorf("%q", c)
		}
		if _, err := os.Stat(p.dir("refs", "main")); err != nil {
			t.Error(err)
		}
	})
}

// FuzzETag: a used tag is a digest.
func FuzzETag(f *testing.F) {
	f.Add(`W/"0123456789012345678901234567890123456789"`, "")
	f.Add("", `"../../x"`)
	f.Fuzz(func(t *testing.T, linked, tag string) {
		h := http.Header{"X-Linked-Etag": {linked}, "Etag": {tag}, "X-Linked-Size": {tag}}
		a := &answer{Response: &http.Response{StatusCode: 200, Header: h, ContentLength: 5}, size: -1}
		a.note(false)
		if a.size < -1 {
			t.Errorf("size %d", a.size)
		}
		if (validETag(a.etag, 40) || validETag(a.etag, 64)) && strings.Trim(a.etag, "0123456789abcdef") != "" {
			t.Errorf("%q", a.etag)
		}
		if s := readable(linked); strings.ContainsAny(s, "\x1b\n\r\a") || len([]rune(s)) > 203 {
			t.Errorf("%q", s)
		}
	})
}
