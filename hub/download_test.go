package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trireme/hub"
	"trireme/hub/hubtest"
)

func TestMain(m *testing.M) {
	if endpoint := os.Getenv("HUB_TEST_ENDPOINT"); endpoint != "" { // the process that TestKilled kills
		c := hub.Client{Endpoint: endpoint, Cache: os.Getenv("HUB_TEST_CACHE"), Progress: os.Stderr}
		if _, err := c.Model(context.Background(), "owner/tiny"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func blob(c hub.Client) string {
	return filepath.Join(c.Cache, "models--owner--tiny/blobs", hubtest.ETag(weights))
}

// whole checks the weights and that no partial file is left.
func whole(t *testing.T, c hub.Client) {
	t.Helper()
	if b, err := os.ReadFile(blob(c)); err != nil || string(b) != weights {
		t.Errorf("%d bytes of %d, %v", len(b), len(weights), err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.Cache, "*/blobs/*.incomplete")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

func ranges(requests []string) (out []string) {
	for _, r := range requests {
		if strings.HasPrefix(r, "cdn ") {
			_, of, _ := strings.Cut(r, "bytes=")
			out = append(out, of)
		}
	}
	return out
}

func TestResume(t *testing.T) {
	s, c, _ := start(t)
	s.Inject(hubtest.Truncate(30_000, weights))
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	if got, want := ranges(s.Requests()), []string{"", "30000-", "60000-"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
	whole(t, c)
}

func TestResumeNextRun(t *testing.T) {
	s, c, _ := start(t)
	var n atomic.Int32
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn {
			return false
		}
		if n.Add(1) > 1 {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		return hubtest.Truncate(30_000, weights)(w, r, cdn)
	})
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "returned 502 Bad Gateway")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%v contains a signature", err)
	}
	if st, err := os.Stat(blob(c) + ".incomplete"); err != nil || st.Size() != 30_000 {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := os.Stat(filepath.Join(c.Cache, "models--owner--tiny/refs")); err == nil {
		t.Error("a reference to an incomplete snapshot")
	}
	s.Inject(nil)
	s.Requests()
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	if got := ranges(s.Requests()); !slices.Equal(got, []string{"30000-"}) {
		t.Errorf("requests %q", got)
	}
	whole(t, c)
}

func TestServersWithoutRanges(t *testing.T) {
	s, c, _ := start(t)
	s.NoRanges = true
	var n atomic.Int32
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn || n.Add(1) > 4 {
			return false
		}
		r.Header.Del("Range")
		return hubtest.Truncate(int64(10_000*n.Load()), weights)(w, r, cdn)
	})
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	whole(t, c)

	// A download that always stops at the same byte fails.
	s, c, _ = start(t)
	s.NoRanges = true
	n.Store(0)
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		r.Header.Del("Range")
		at := int64(10_000)
		if cdn && n.Add(1) == 1 {
			at = 30_000
		}
		return hubtest.Truncate(at, weights)(w, r, cdn)
	})
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "connection closed after 10000 of 80000 bytes")
	if st, err := os.Stat(blob(c) + ".incomplete"); err != nil || st.Size() != 10_000 {
		t.Errorf("%v, %v", st, err) // or the next run would resume mixed content
	}
}

func TestWrongBytes(t *testing.T) {
	wrong := strings.Replace(weights, "w", "W", 1)
	for name, f := range map[string]hubtest.Fault{
		"large": func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if cdn {
				fmt.Fprint(w, wrong)
			}
			return cdn
		},
		"small": func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			config := strings.HasSuffix(r.URL.Path, "/config.json")
			if config {
				fmt.Fprint(w, `{"model_type": "LLAMA"}`)
			}
			return config
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, _ := start(t)
			s.Inject(f)
			_, err := c.Model(t.Context(), "owner/tiny")
			wantError(t, err, hub.ErrCorrupt, "has digest")
			if left, _ := filepath.Glob(filepath.Join(c.Cache, "*/blobs/*.incomplete")); name == "large" && slices.Contains(left, blob(c)+".incomplete") {
				t.Error("the wrong bytes are left")
			}
			if _, err := os.Stat(filepath.Join(c.Cache, "models--owner--tiny/refs/main")); err == nil {
				t.Error("main is said to be here")
			}
			s.Inject(nil)
			if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
				t.Fatal(err)
			}
			whole(t, c)
		})
	}
}

// TestDamagedPart: arbitrary bytes in a partial file never become a blob.
func TestDamagedPart(t *testing.T) {
	for name, part := range map[string]string{"wrong": "WEIGHTS ", "long": weights + "more", "wrong and long": strings.ToUpper(weights) + "more", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			_, c, _ := start(t)
			if err := os.MkdirAll(filepath.Dir(blob(c)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(blob(c)+".incomplete", []byte(part), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
				if !errors.Is(err, hub.ErrCorrupt) {
					t.Fatal(err)
				}
				if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
					t.Fatal(err)
				}
			}
			whole(t, c)
		})
	}
}

func TestWrongLengths(t *testing.T) {
	for name, x := range map[string]struct {
		fault hubtest.Fault
		text  string
	}{
		"announces less": {lie("70000", weights[:70_000]), "Content-Length is 70000, but 80000 bytes are missing"},
		"announces more": {lie("90000", weights+strings.Repeat("x", 10_000)), "Content-Length is 90000"},
		"brings less":    {lie("80000", weights[:70_000]), "connection closed after 70000 of 80000 bytes"},
		"says nothing, brings more": {func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if cdn {
				w.(http.Flusher).Flush()
				fmt.Fprint(w, weights+weights)
			}
			return cdn
		}, "received more than 80000 bytes"},
		"another range": {func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if cdn && r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes 5-80004/80005")
				w.WriteHeader(http.StatusPartialContent)
				fmt.Fprint(w, weights)
				return true
			}
			return hubtest.Truncate(9, weights)(w, r, cdn)
		}, "requested bytes from 9, received bytes 5-"},
		"no such range": {func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if cdn && r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return true
			}
			return hubtest.Truncate(9, weights)(w, r, cdn)
		}, "the server has no bytes from 9"},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, _ := start(t)
			s.Inject(x.fault)
			var said strings.Builder
			c.Progress = &said
			_, err := c.Model(t.Context(), "owner/tiny")
			if all := fmt.Sprint(said.String(), err); err == nil || !strings.Contains(all, x.text) {
				t.Errorf("%q does not contain %q", all, x.text)
			}
			s.Inject(nil)
			if _, err := c.Model(t.Context(), "owner/tiny"); err != nil && !errors.Is(err, hub.ErrCorrupt) {
				t.Fatal(err)
			}
			if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
				t.Fatal(err)
			}
			whole(t, c)
		})
	}
}

// lie responds as the CDN with a length and a body.
func lie(length, body string) hubtest.Fault {
	return func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if cdn && r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", length)
			fmt.Fprint(w, body)
		} else if cdn {
			w.WriteHeader(http.StatusBadGateway)
		}
		return cdn
	}
}

func TestRetries(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503, 504} {
		s, c, _ := start(t)
		var said strings.Builder
		c.Progress = &said
		var n atomic.Int32
		s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if n.Add(1) > 2 {
				return false
			}
			w.WriteHeader(status)
			return true
		})
		if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
			t.Errorf("%d: %v", status, err)
		}
		if strings.Count(said.String(), "; retrying in ") != 2 {
			t.Errorf("printed %q", said.String())
		}
		whole(t, c)
	}
	s, c, _ := start(t)
	s.Inject(hubtest.Status(500, "/"))
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "returned 500")
	if r := s.Requests(); len(r) != 5 {
		t.Errorf("%d tries", len(r))
	}
}

func TestRetryAfter(t *testing.T) {
	for header, value := range map[string]string{"Retry-After": "1", "RateLimit": `"api";r=0;t=1`} {
		s, c, _ := start(t)
		var n atomic.Int32
		s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if n.Add(1) > 1 {
				return false
			}
			w.Header().Set(header, value)
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		began := time.Now()
		if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < time.Second {
			t.Errorf("%s: waited %s", header, waited)
		}
	}
	// A too long wait is refused.
	s, c, _ := start(t)
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "returned 429")
}

func TestStalls(t *testing.T) {
	s, c, _ := start(t)
	c.StallTimeout = 50 * time.Millisecond
	var n atomic.Int32
	release := make(chan struct{})
	defer close(release)
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn || n.Add(1) > 1 {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(weights)))
		fmt.Fprint(w, weights[:1000])
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	})
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	if got := ranges(s.Requests()); !slices.Equal(got, []string{"", "1000-"}) {
		t.Errorf("requests %q", got)
	}
	whole(t, c)
}

// TestSignatureSecret: a redirect's signature is as secret as a token.
func TestSignatureSecret(t *testing.T) {
	s, c, _ := start(t)
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn {
			return false
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		conn.Close()
		return true
	})
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "cannot be reached: EOF")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%v contains a signature", err)
	}
}

// TestTokenHost: the token is sent to the endpoint only.
func TestTokenHost(t *testing.T) {
	s, c, _ := start(t)
	s.Protect("model", "owner/tiny", "hf_right", false)
	c.Token = "hf_right"
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil { // the CDN refuses tokens
		t.Fatal(err)
	}
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer other.Close()
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
		return true
	})
	c.Cache = t.TempDir()
	if _, err := c.Model(t.Context(), "owner/tiny"); err == nil || leaked.Load() {
		t.Errorf("%v, leaked %v", err, leaked.Load())
	}
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		http.Redirect(w, r, s.URL+r.URL.Path, http.StatusFound)
		return true
	})
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "redirects more than 10 times")
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(http.StatusFound)
		return true
	})
	_, err = c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "invalid URL")
}

func TestNotAHub(t *testing.T) {
	s, c, _ := start(t)
	for body, want := range map[string]string{
		"<html>Log in to the hotel's network</html>": "not JSON: invalid character '<'",
		"{}":                `its sha "" is not a commit`,
		`{"sha": "main"}`:   `its sha "main" is not a commit`,
		`[1]`:               "unexpected JSON array",
		`{"siblings": "x"}`: `unexpected JSON string as "siblings"`,
	} {
		s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			fmt.Fprint(w, body)
			return true
		})
		_, err := c.Model(t.Context(), "owner/tiny")
		wantError(t, err, hub.ErrUnreachable, "invalid file list from "+s.URL+": "+want)
	}
	s.NoBlobs = true
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if r.Method == http.MethodHead {
			w.Header().Set("ETag", `"../../../x"`)
			w.WriteHeader(http.StatusOK)
			return true
		}
		return false
	})
	_, err := c.Model(t.Context(), "owner/tiny")
	wantError(t, err, hub.ErrUnreachable, "does not send the size and digest")
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		w.Header().Set("X-Error-Message", "\x1b]0;owned\a\x1b[31mred")
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	_, err = c.Model(t.Context(), "owner/tiny")
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\a") {
		t.Errorf("%q", err)
	}
}

// TestConcurrentDownloads: one of several concurrent clients downloads.
func TestConcurrentDownloads(t *testing.T) {
	s, c, _ := start(t)
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if cdn {
			time.Sleep(20 * time.Millisecond)
		}
		return false
	})
	together(t, 6, func() error {
		_, err := c.Model(t.Context(), "owner/tiny")
		return err
	})
	got := map[string]int{}
	for _, r := range s.Requests() {
		if !strings.Contains(r, "/api/") {
			got[r]++
		}
	}
	for r, n := range got {
		if n > 1 {
			t.Errorf("%s: %d times", r, n)
		}
	}
	whole(t, c)
}

// TestKilled: a killed process leaves its partial file and releases its lock.
func TestKilled(t *testing.T) {
	s, c, _ := start(t)
	sent := make(chan struct{})
	s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(weights)))
		fmt.Fprint(w, weights[:40_000])
		w.(http.Flusher).Flush()
		close(sent)
		<-r.Context().Done()
		return true
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "HUB_TEST_ENDPOINT="+s.URL, "HUB_TEST_CACHE="+c.Cache)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-sent
	for range 500 { // until it has written what came
		if st, err := os.Stat(blob(c) + ".incomplete"); err == nil && st.Size() == 40_000 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed
	s.Inject(nil)
	s.Requests()
	if _, err := c.Model(t.Context(), "owner/tiny"); err != nil {
		t.Fatal(err)
	}
	if got := ranges(s.Requests()); !slices.Equal(got, []string{"40000-"}) {
		t.Errorf("requests %q", got)
	}
	whole(t, c)
}
