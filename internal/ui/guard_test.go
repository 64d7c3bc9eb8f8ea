package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/ui"
	"trireme/internal/ui/uitest"
)

func TestErrors(t *testing.T) {
	root, dir := write(t, plain("one", 20))
	outside := t.TempDir()
	if err := plain("secret", 5).Write(filepath.Join(outside, "secret")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := uitest.WriteTrace(dir, 2, 2, 2, -1); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "trace", "passwd.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "trace", "bad.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := serve(t, ui.Config{Dirs: []string{root}})
	run := func(q url.Values) url.Values {
		q.Set("run", dir)
		return q
	}
	for _, c := range []struct {
		path string
		q    url.Values
		want int
	}{
		{"/api/series", run(url.Values{"metric": {"loss"}, "from": {"-1e300"}, "to": {"1e300"}}), 200},
		{"/api/series", run(url.Values{"metric": {"loss"}, "from": {"9e18"}, "to": {"-9e18"}}), 200},
		{"/api/series", run(url.Values{"metric": {"loss"}, "axis": {"tokens"}, "from": {"9e18"}}), 200},
		{"/api/series", run(url.Values{"metric": {"loss"}, "axis": {"wall"}, "to": {"-5"}}), 200},
		{"/api/series", run(url.Values{"metric": {"loss"}, "points": {"0"}}), 400},
		{"/api/series", run(url.Values{"metric": {"loss"}, "points": {"1e12"}}), 400},
		{"/api/series", run(url.Values{"metric": {"loss"}, "from": {"NaN"}}), 400},
		{"/api/series", run(url.Values{"metric": {"loss"}, "from": {"x"}}), 400},
		{"/api/series", run(url.Values{"metric": {"loss"}, "axis": {"epochs"}}), 400},
		{"/api/series", run(url.Values{}), 400},
		{"/api/series", url.Values{"metric": {"loss"}, "run": make([]string, 65)}, 400},
		{"/api/at", run(url.Values{"x": {"1e300"}}), 200},
		{"/api/at", run(url.Values{"x": {"-1"}}), 200},
		{"/api/run", run(url.Values{}), 200},
		{"/api/run", url.Values{}, 400},
		{"/api/run", url.Values{"run": {"none"}}, 404},
		{"/api/run", url.Values{"run": {dir + "/../one"}}, 404},
		{"/api/run", url.Values{"run": {filepath.Join(outside, "secret")}}, 404},
		{"/api/run", url.Values{"run": {filepath.Join(root, "link")}}, 404},
		{"/api/traces", run(url.Values{}), 200},
		{"/api/trace", run(url.Values{"file": {"steps-10-11.perfetto-trace"}}), 200},
		{"/api/trace", run(url.Values{"file": {"steps-10-11.perfetto-trace"}, "from": {"1e300"}, "to": {"-1e300"}}), 200},
		{"/api/trace", run(url.Values{"file": {"../run.json"}}), 404},
		{"/api/trace", run(url.Values{"file": {"passwd.json"}}), 404},
		{"/api/trace", run(url.Values{"file": {"bad.json"}}), 422},
		{"/api/none", url.Values{}, 404},
		{"/../../etc/passwd", url.Values{}, 404},
		{"/page/index.html", url.Values{}, 404},
	} {
		var body struct{ Schema, Error string }
		code := get(t, h, c.path, c.q, &body)
		if code != c.want {
			t.Errorf("%s %v: status %d, want %d: %s", c.path, c.q, code, c.want, body.Error)
		}
		if (code != 200) != (body.Schema == "trireme.ui.error/1" && body.Error != "") {
			t.Errorf("%s %v: status %d with schema %q, error %q", c.path, c.q, code, body.Schema, body.Error)
		}
	}
}

func TestGuard(t *testing.T) {
	root, _ := write(t, plain("one", 3))
	open := serve(t, ui.Config{Dirs: []string{root}})
	token := ui.NewToken()
	closed := serve(t, ui.Config{Dirs: []string{root}, Token: token})
	for _, c := range []struct {
		name   string
		server *httptest.Server
		path   string
		edit   func(*http.Request)
		want   int
	}{
		{"address", open, "/api/runs", func(*http.Request) {}, 200},
		{"localhost", open, "/api/runs", func(r *http.Request) { r.Host = "localhost:1" }, 200},
		{"foreign name", open, "/api/runs", func(r *http.Request) { r.Host = "evil.example:80" }, 403},
		{"foreign name like an address", open, "/", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
		{"no name", open, "/", func(r *http.Request) { r.Host = "[]" }, 403},
		{"foreign page", open, "/api/runs", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"post", open, "/api/runs", func(r *http.Request) { r.Method = "POST" }, 405},
		{"no token", closed, "/api/runs", func(*http.Request) {}, 401},
		{"no token for the page", closed, "/", func(*http.Request) {}, 401},
		{"wrong token", closed, "/?token=x", func(*http.Request) {}, 401},
		{"bearer", closed, "/api/runs", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, 200},
		{"wrong bearer", closed, "/api/runs", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token[1:]) }, 401},
		{"token", closed, "/?token=" + token, func(*http.Request) {}, 303},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequest("GET", c.server.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.edit(r)
			res, err := c.server.Client().Transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != c.want {
				t.Errorf("status %d, want %d", res.StatusCode, c.want)
			}
			policy := res.Header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("policy %q", policy)
			}
			if c.want != 303 {
				return
			}
			cookies := res.Cookies()
			if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
				t.Fatalf("cookies %v", cookies)
			}
			again, err := http.NewRequest("GET", c.server.URL+"/api/runs", nil)
			if err != nil {
				t.Fatal(err)
			}
			again.AddCookie(cookies[0])
			if res, err = c.server.Client().Do(again); err != nil || res.StatusCode != 200 {
				t.Fatalf("with the cookie: %v %v", res, err)
			}
			res.Body.Close()
		})
	}
}
