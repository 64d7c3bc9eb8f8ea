package hub_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/hub"
	"trireme/internal/objectstore/objectstoretest"
)

// startObjects returns an object store and a client with an empty cache.
func startObjects(t *testing.T) (*objectstoretest.Server, hub.Client) {
	t.Helper()
	return objectstoretest.Start(t), hub.Client{Cache: filepath.Join(t.TempDir(), "hub"), Objects: filepath.Join(t.TempDir(), "s3")}
}

// contents returns the files of a snapshot.
func contents(t *testing.T, s *hub.Snapshot) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range s.Files {
		b, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			t.Error(err)
		}
		all[name] = string(b)
	}
	return all
}

// TestObjects: which files the forms of a URL select, and the path that a reader of files gets.
func TestObjects(t *testing.T) {
	s, c := startObjects(t)
	for _, key := range []string{"top.txt", "d/a.jsonl", "d/b.jsonl", "d/c.csv", "d/e/f.jsonl", "d/.hidden/x", "d/empty.jsonl", "other/x.txt"} {
		s.Set(key, []byte("content of "+key))
	}
	s.Set("d/empty.jsonl", nil)
	s.Set("d/", nil) // as consoles make for a folder
	// Keys that are no paths are left out.
	for _, key := range []string{"d/../../escape", "d//abs", "d/./x", "/etc/passwd", "d/e/../../../up"} {
		s.Set(key, []byte("bad"))
	}
	for _, x := range []struct{ url, path, files string }{
		{"d/a.jsonl", "a.jsonl", "a.jsonl"},
		{"top.txt", "top.txt", "top.txt"},
		{"d", "d", "d/a.jsonl d/b.jsonl d/c.csv d/e/f.jsonl d/empty.jsonl"},
		{"d/", "d", "d/a.jsonl d/b.jsonl d/c.csv d/e/f.jsonl d/empty.jsonl"},
		{"d/*.jsonl", "*.jsonl", "a.jsonl b.jsonl empty.jsonl"},
		{"d/[ab].*", "[ab].*", "a.jsonl b.jsonl"},
		{"*/e/*", "*/e/*", "d/e/f.jsonl"},
		{"d/**/*.jsonl", "**/*.jsonl", "a.jsonl b.jsonl e/f.jsonl empty.jsonl"},
		{"", "", "d/a.jsonl d/b.jsonl d/c.csv d/e/f.jsonl d/empty.jsonl other/x.txt top.txt"},
	} {
		url := "s3://bucket/" + x.url
		d, err := c.Dataset(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		p, err := d.Pattern()
		if got := strings.Join(d.Files, " "); err != nil || got != x.files || filepath.Join(d.Dir, x.path) != p || d.Pinned() != url || d.HasSplit("train") {
			t.Errorf("%s: path %s of %s, files %s, %s, %v", url, p, d.Dir, got, d.Pinned(), err)
		}
		for name, text := range contents(t, d) {
			if want := "content of " + name; text != "" && !strings.HasPrefix(text, "content of ") || !strings.HasSuffix(text, filepath.Base(name)) && text != "" {
				t.Errorf("%s: %q, want %q", name, text, want)
			}
		}
	}
	root := filepath.Dir(c.Objects)
	for name := range tree(t, root) {
		if !strings.HasPrefix(name, "s3/bucket@") && !strings.HasPrefix(name, "s3/.locks/bucket@") || strings.Contains(name, "passwd") || strings.Contains(name, "escape") {
			t.Errorf("file %s", name)
		}
	}
}

// TestObjectsModel: only the files of a model are copied, with the cache's errors.
func TestObjectsModel(t *testing.T) {
	s, c := startObjects(t)
	files := model()
	for name, text := range files {
		s.Set("m/"+name, []byte(text))
	}
	m, err := c.Model(t.Context(), "s3://bucket/m")
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(contents(t, m))); strings.Join(got, " ") != "config.json generation_config.json model.safetensors tokenizer.json" {
		t.Errorf("files %q", got)
	}
	for name, text := range contents(t, m) {
		if text != files[name] {
			t.Errorf("%s: %.20q", name, text)
		}
	}
	s.Delete("m/model.safetensors")
	s.Set("m/model.safetensors.index.json", []byte(`{"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}`))
	s.Set("m/m-1.safetensors", []byte(weights))
	if _, err := c.Model(t.Context(), "s3://bucket/m/"); err == nil || !strings.Contains(err.Error(), "s3://bucket/m/ at "+s.URL+" has no file m-2.safetensors") {
		t.Error(err)
	}
	s.Set("m/m-2.safetensors", []byte("two"))
	if m, err = c.Model(t.Context(), "s3://bucket/m/"); err != nil || contents(t, m)["m-2.safetensors"] != "two" {
		t.Error(err)
	}
	if m, err = c.Tokenizer(t.Context(), "s3://bucket/m"); err != nil || strings.Join(m.Files, " ") != "config.json tokenizer.json" {
		t.Error(m, err)
	}
	s.Set("n/pytorch_model.bin", []byte("x"))
	if _, err := c.Model(t.Context(), "s3://bucket/n"); !errors.Is(err, hub.ErrNotFound) || !strings.Contains(err.Error(), "s3://bucket/n has no config.json") {
		t.Error(err)
	}
}

// TestObjectsAgain: an unchanged object is not fetched again, a changed one is.
func TestObjectsAgain(t *testing.T) {
	s, c := startObjects(t)
	s.Set("d/a.txt", []byte(weights))
	s.Set("d/b.txt", []byte("old"))
	get := func(url string) (*hub.Snapshot, int) {
		t.Helper()
		before := s.Requests()
		d, err := c.Dataset(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		return d, s.Requests() - before
	}
	first, _ := get("s3://bucket/d/")
	if _, n := get("s3://bucket/d/"); n != 1 {
		t.Errorf("%d requests, want a list", n)
	}
	if _, n := get("s3://bucket/d/a.txt"); n != 1 { // another URL of the same object
		t.Errorf("%d requests, want a HEAD", n)
	}
	s.Set("d/b.txt", []byte("new"))
	second, n := get("s3://bucket/d/")
	if n != 3 || contents(t, second)["b.txt"] != "" || contents(t, second)["d/b.txt"] != "new" || contents(t, first)["d/b.txt"] != "old" {
		t.Errorf("%d requests, %v", n, contents(t, second)["d/b.txt"])
	}

	// Without the store, the last complete copy is used; a missing object is an error.
	for _, offline := range []bool{true, false} {
		var notes strings.Builder
		c := c
		c.Progress, c.Offline = &notes, offline
		s.Fail(objectstoretest.Failure{Kind: objectstoretest.Denied})
		d, err := c.Dataset(t.Context(), "s3://bucket/d/")
		if err != nil || d.Commit != second.Commit || contents(t, d)["d/b.txt"] != "new" || offline == strings.Contains(notes.String(), "using s3://bucket/d/ from the cache") {
			t.Errorf("%v: %v %v %s", offline, d, err, notes.String())
		}
		if _, err := c.Dataset(t.Context(), "s3://bucket/other/"); err == nil || !strings.Contains(err.Error(), "the cache "+c.Objects+" has no s3://bucket/other/") || strings.Count(err.Error(), "try: ") != 1 {
			t.Error(err)
		}
	}
	s.Fail()
	s.Delete("d/a.txt")
	s.Delete("d/b.txt")
	_, err := c.Dataset(t.Context(), "s3://bucket/d/")
	if want := "hub: s3://bucket/d/ does not exist: no object of that name, and none below it. try: aws s3 ls s3://bucket/"; err == nil || err.Error() != want || !errors.Is(err, hub.ErrNotFound) {
		t.Error(err)
	}
}

// TestObjectsFaults: transient failures are survived, and a cut download goes on where it was.
func TestObjectsFaults(t *testing.T) {
	for _, kind := range []objectstoretest.Kind{objectstoretest.CutBefore, objectstoretest.CutAfter, objectstoretest.CutBody, objectstoretest.Busy, objectstoretest.Internal} {
		s, c := startObjects(t)
		s.Set("d/a.txt", []byte(weights))
		s.Fail(objectstoretest.Failure{Kind: kind, Method: "GET", From: 2, To: 2}, objectstoretest.Failure{Kind: kind, Method: "HEAD", To: 1})
		d, err := c.Dataset(t.Context(), "s3://bucket/d/")
		if err != nil || contents(t, d)["d/a.txt"] != weights {
			t.Errorf("%v: %v", kind, err)
		}
	}

	s, c := startObjects(t)
	big := strings.Repeat("0123456789abcdef", 9<<16)
	s.Set("big.txt", []byte(big))
	// The first 8 MiB arrive: a process that is killed then leaves the same.
	s.Fail(objectstoretest.Failure{Kind: objectstoretest.Denied, Method: "GET", From: 2})
	if _, err := c.Dataset(t.Context(), "s3://bucket/big.txt"); !errors.Is(err, hub.ErrUnreachable) || !strings.Contains(err.Error(), "read s3://bucket/big.txt: ") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
	parts, err := filepath.Glob(filepath.Join(c.Objects, "*", "blobs", "*.incomplete"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	st, err := os.Stat(parts[0])
	if err != nil || st.Size() == 0 || st.Size() >= int64(len(big)) {
		t.Fatal(st, err)
	}
	s.Fail()
	before := s.Bytes()
	d, err := c.Dataset(t.Context(), "s3://bucket/big.txt")
	if err != nil || contents(t, d)["big.txt"] != big || s.Bytes()-before != int64(len(big))-st.Size() {
		t.Errorf("%d bytes were sent again of %d, %v", s.Bytes()-before, int64(len(big))-st.Size(), err)
	}
}

// TestObjectsReplaced: bytes of two versions of an object are never mixed.
func TestObjectsReplaced(t *testing.T) {
	s, c := startObjects(t)
	old, young := strings.Repeat("old!", 9<<18), strings.Repeat("new!", 9<<18)
	s.Set("x.txt", []byte(old))
	s.After("GET", 1, func() { s.Set("x.txt", []byte(young)) })
	_, err := c.Dataset(t.Context(), "s3://bucket/x.txt")
	if !errors.Is(err, hub.ErrCorrupt) || !strings.Contains(err.Error(), "s3://bucket/x.txt was replaced while it was downloaded. try: ") {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.Objects, "*", "blobs", "*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	d, err := c.Dataset(t.Context(), "s3://bucket/x.txt")
	if err != nil || contents(t, d)["x.txt"] != young {
		t.Error(err)
	}

	// Between the list and the download.
	s.Set("d/y.txt", []byte(old))
	s.After("GET", 1, func() { s.Set("d/y.txt", []byte(young)) })
	if _, err := c.Dataset(t.Context(), "s3://bucket/d/"); !errors.Is(err, hub.ErrCorrupt) || !strings.Contains(err.Error(), "was replaced") {
		t.Error(err)
	}
}

// TestObjectsChecksum: bytes that do not have the store's checksum are deleted.
func TestObjectsChecksum(t *testing.T) {
	s, c := startObjects(t)
	s.Set("x.txt", []byte("text"))
	s.Fail(objectstoretest.Failure{Kind: objectstoretest.WrongSum, Method: "HEAD"})
	_, err := c.Dataset(t.Context(), "s3://bucket/x.txt")
	if !errors.Is(err, hub.ErrCorrupt) || !strings.Contains(err.Error(), "x.txt of s3://bucket/x.txt has digest ") {
		t.Error(err)
	}
	s.Fail()
	if _, err := c.Dataset(t.Context(), "s3://bucket/x.txt"); err != nil {
		t.Error(err)
	}
}

// TestObjectsTogether: one of several processes downloads, as one of several clients does here.
func TestObjectsTogether(t *testing.T) {
	s, c := startObjects(t)
	s.Set("d/x.txt", []byte(weights))
	together(t, 4, func() error {
		_, err := c.Dataset(t.Context(), "s3://bucket/d/")
		return err
	})
	if got := s.Bytes(); got != int64(len(weights)) {
		t.Errorf("%d bytes of %d were sent", got, len(weights))
	}
}

func TestObjectsRefused(t *testing.T) {
	s, c := startObjects(t)
	s.Set("d/a", []byte("x"))
	s.Set("d/a/b", []byte("x"))
	s.Set("long/"+strings.Repeat("x", 300), []byte("x"))
	for url, want := range map[string]string{
		"s3://bucket/d/":        "s3://bucket/d/a is an object and a directory of objects",
		"s3://bucket/long/":     "not a valid path",
		"s3://bucket/../x":      "no valid key. try: ",
		"s3://B/x":              "no valid name of a bucket. try: ",
		"s3://bucket/[":         "close the [",
		"s3://none/x":           "NoSuchBucket",
		"s3://bucket/none.json": "s3://bucket/none.json does not exist",
	} {
		_, err := c.Dataset(t.Context(), url)
		var e *hub.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || e.Try == "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", url, fmt.Sprint(err))
		}
	}
}
