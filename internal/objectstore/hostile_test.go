package objectstore_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/objectstore"
	"trireme/internal/objectstore/objectstoretest"
)

// hostile is a client of a server that answers each request with what answer returns.
func hostile(t testing.TB, answer func(n int) string) *objectstore.Client {
	n := 0
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		n++
		text := answer(n)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, text) // the client may be gone
	}))
	t.Cleanup(srv.Close)
	c, err := objectstore.New(context.Background(), objectstore.Options{Endpoint: srv.URL, AccessKey: "a", SecretKey: "b", Attempts: 1, Limit: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // writes to memory
	return b.String()
}

// page is a page of a list with a key, which is that of a directory and of an upload too.
func page(key string) string {
	k := escaped(key)
	return fmt.Sprintf("<ListBucketResult><Contents><Key>%s</Key><Size>1</Size></Contents><CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes><Upload><Key>%s</Key><UploadId>1</UploadId></Upload></ListBucketResult>", k, k, k)
}

// checkLists lists a directory in all ways: all results are below it, and paths.
func checkLists(t *testing.T, c *objectstore.Client) (names []string) {
	t.Helper()
	dir := objectstore.Path{Bucket: "bucket", Key: "a"}
	valid := func(p objectstore.Path) {
		if again, err := objectstore.Parse(p.String()); err != nil || again != p || !strings.HasPrefix(p.Key, "a/") {
			t.Errorf("%q was listed: %v", p, err)
		}
	}
	names, _ = c.ReadDir(context.Background(), dir)
	for _, name := range names {
		if strings.Contains(name, "/") {
			t.Errorf("%q is no name", name)
		}
		valid(dir.Join(name))
	}
	all, _ := c.List(context.Background(), dir)
	for _, x := range all {
		valid(x.Path)
	}
	uploads, _ := c.Uploads(context.Background(), dir)
	for _, u := range uploads {
		valid(u.Path)
	}
	return names
}

// TestHostileLists: keys that are no paths or not in the directory are left out.
func TestHostileLists(t *testing.T) {
	for key, want := range map[string]bool{
		"a/b": true, "a/b/": true, "a": false, "b": false, "ab/c": false, "/a/b": false, "a//b": false, "a/..": false, "a/../b": false, "../a/b": false,
		"a/.": false, "a/b\nc": false, "a/\x7f": false, "": false, "a/": false, "a/" + strings.Repeat("k", 1022): true, "a/" + strings.Repeat("k", 1<<20): false,
	} {
		names := checkLists(t, hostile(t, func(int) string { return page(key) }))
		if got := len(names) > 0; got != want {
			t.Errorf("%.20q: listed as %.40q", key, names)
		}
	}
}

func FuzzLists(f *testing.F) {
	for _, key := range []string{"a/b", "a/../b", "a//", "\xff", "a/\x00"} {
		f.Add(page(key))
	}
	f.Add("<ListBucketResult>" + strings.Repeat("<Contents>", 1000))
	f.Add("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")
	f.Add("<ListBucketResult><Contents><Key>a/b</Key><Size>-99999999999999999999</Size><LastModified>x</LastModified></Contents></ListBucketResult>")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		checkLists(t, hostile(t, func(int) string {
			if n++; n > 20 { // a list that goes on is TestEndlessLists's
				return page("a/b")
			}
			return text
		}))
	})
}

// TestEndlessLists: a list that does not end is an error, whatever its pages have, and so is one that does not fit in
// memory.
func TestEndlessLists(t *testing.T) {
	dir := objectstore.Path{Bucket: "bucket", Key: "a"}
	for name, answer := range map[string]func(n int) string{
		"the same token":  func(int) string { return next("t", "") },
		"no token":        func(int) string { return next("", "") },
		"empty pages":     func(n int) string { return next(fmt.Sprint(n), "") },
		"a page too long": func(int) string { return next("t", strings.Repeat("<Contents><Key>a/b</Key></Contents>", 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			c := hostile(t, func(n int) string { requests = n; return answer(n) })
			if _, err := c.ReadDir(t.Context(), dir); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "s3://bucket/a") {
				t.Error(err)
			}
			if requests > 5000 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}

// next is a page of a list that goes on.
func next(token, entries string) string {
	return "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" + token + "</NextContinuationToken>" + entries + "</ListBucketResult>"
}

// TestConcurrentReads: goroutines that read one object in order and at random get its bytes.
func TestConcurrentReads(t *testing.T) {
	srv := objectstoretest.New(t)
	b := random(100_000)
	srv.Set(at.Key, b)
	o, err := srv.Client(t).Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for g := range errs {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			for i, off := 0, 0; i < 100; i++ {
				part := make([]byte, 1+rng.IntN(2000))
				if off += len(part); g%2 == 0 || off+len(part) > len(b) {
					off = rng.IntN(len(b) - len(part))
				}
				if n, err := o.ReadAt(part, int64(off)); err != nil || !slices.Equal(part[:n], b[off:off+len(part)]) {
					errs[g] = fmt.Errorf("%d bytes at %d: %d, %w", len(part), off, n, err)
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, o.Close())...); err != nil {
		t.Fatal(err)
	}
}
